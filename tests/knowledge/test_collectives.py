"""Kernel names of many libraries, told apart from compute."""

from __future__ import annotations

import pytest

from hermes.knowledge.collectives import bytes_of_dtype, collective_of_kernel, is_local, op_of_words

COMMUNICATION = [
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl", "all_reduce"),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "nccl", "send_recv"),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "nccl", "all_gather"),
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "nccl", "all_reduce"),
    ("ncclSymkDevKernel_ReduceScatter_LL_sum_f8e4m3(ncclSymkDevWorkArgs4K)", "nccl", "reduce_scatter"),
    ("void ncclKernelAllToAllv<int>(int*, CtranAlgoDeviceState*)", "ncclx", "all_to_all"),
    ("mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*)", "rccl", "unknown"),
    ("rccl_main_kernel(ncclDevComm*, unsigned long, ncclWork*)", "rccl", "unknown"),
    ("void mscclpp::collective::allgatherFullmesh2<false>(void*)", "mscclpp", "all_gather"),
    ("void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*)", "deepep", "all_to_all"),
    ("void deep_ep::internode_ll::combine<true, 3, 9>(void*)", "deepep", "all_to_all"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "deepep", "all_to_all"),
    ("void deep_ep::intranode::barrier<8>(int**, int)", "deepep", "barrier"),
    ("void nvshmemi_barrier_on_stream_kernel(int)", "nvshmem", "barrier"),
    ("void c10d::nvshmem_extension::allToAllV(void*)", "nvshmem", "all_to_all"),
    ("void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)", "custom", "all_reduce"),
    ("void sglang::cross_device_reduce_2stage<float, 8>(sglang::RankData*)", "custom", "all_reduce"),
    ("_ZN4vllm25cross_device_reduce_2stageI6__halfLi2EEEvPNS_8RankDataE", "custom", "all_reduce"),
    ("void quickreduce::allreduce_prototype_twoshot<X<int>, __half>(X)", "quickreduce", "all_reduce"),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::P)1, 2>",
        "trtllm", "all_reduce",
    ),
    ("void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8>(AllReduceParams)", "trtllm", "all_reduce"),
    ("void moeA2ADispatchKernel<8>(int const*)", "trtllm", "all_to_all"),
    ("void c10d::symmetric_memory::(anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(float*)",
     "symm_mem", "all_reduce"),
    ("void two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>(T**)", "symm_mem", "all_reduce"),
    ("hcom_allReduce__271_0_1", "hccl", "all_reduce"),
    ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<4>(int, int)", "userbuffers", "reduce_scatter"),
    ("void userbuffers_fp16_sum_inplace_gpu_rw_ag<2>(int, int)", "userbuffers", "all_gather"),
    ("void userbuffers_fp16_sum_inplace_gpu_mc<8>(int, int)", "userbuffers", "all_reduce"),
    ("kuserbuffers_pushsend(int*, int*, int4*, int4*, int)", "userbuffers", "send"),
    ("void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs<hip_bfloat16>)",
     "mori", "all_to_all"),
]  # fmt: skip

COMPUTE = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor<float>>>(R)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4>(float*)",
    "triton_poi_fused_add_all_reduce_wait_tensor_0",
    "triton_red_fused__to_copy_all_gather_into_tensor_3",
    "allreduce_rms_norm_quant",
    "gemm_rs_kernel<float>",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "void cdpsk::ep::CUB_200_860_NS::DeviceScanKernel<int>()",
    "void nvshmemi_init_array_kernel<int>(int*, int, int)",
    "void moeA2ASanitizeExpertIdsKernel(int*)",
    "void broadcast_add_kernel<float>(float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "void my_gemm<nccl_like>(ncclComm*)",
    "",
]


@pytest.mark.parametrize(("name", "library", "op"), COMMUNICATION, ids=[row[0][:40] for row in COMMUNICATION])
def test_a_communication_kernel_is_known_with_its_library_and_operation(name: str, library: str, op: str) -> None:
    found = collective_of_kernel(name)
    assert found is not None
    assert (found.library, found.op) == (library, op)


@pytest.mark.parametrize("name", COMPUTE)
def test_local_work_is_not_communication(name: str) -> None:
    assert collective_of_kernel(name) is None


def test_on_amd_the_names_of_nccl_are_rccls() -> None:
    found = collective_of_kernel("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "amd")
    assert found is not None
    assert (found.library, found.op) == ("rccl", "unknown")


def test_on_amd_other_libraries_keep_their_name() -> None:
    found = collective_of_kernel("void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>(X)", "amd")
    assert found is not None
    assert found.library == "custom"


def test_a_kernel_of_pytorch_is_local_and_one_of_nccl_is_not() -> None:
    assert is_local("void at::native::vectorized_elementwise_kernel<4>(int)")
    assert not is_local("ncclDevKernel_Generic_1")


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("allreduce", "all_reduce"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("_reduce_oop", "reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("send", "send"),
        ("recv", "recv"),
        ("batch_isend_irecv", "send_recv"),
        ("coalesced", "unknown"),
        ("wait", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_recorded_name_gives_its_operation(name: str, op: str) -> None:
    assert op_of_words(name) == op


@pytest.mark.parametrize(
    ("name", "size"),
    [("Float", 4), ("BFloat16", 2), ("c10::BFloat16", 2), ("long int", 8), ("Byte", 1), ("Float8_e4m3fn", 1)],
)
def test_a_type_has_its_size_in_every_spelling(name: str, size: int) -> None:
    assert bytes_of_dtype(name) == size


def test_an_unknown_type_has_no_size() -> None:
    assert bytes_of_dtype("GenericList") is None


def test_a_hostile_name_costs_no_time() -> None:
    assert collective_of_kernel("<" * 100_000 + "(" * 100_000) is None
    assert collective_of_kernel("a<" * 50_000 + ">" * 50_000) is None
