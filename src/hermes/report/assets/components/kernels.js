// Names of kernels as people say them, as hermes/knowledge/kernel_names.py has it: a test holds the two together.

const WRAPPER = /^cutlass::(device_kernel|Kernel2?)$/;
const LOOP = /(elementwise_kernel|reduce_kernel|multi_tensor_apply_kernel|index_elementwise_kernel)\w*$/;
const WORK = /\b(?:\w+Functor(?:_\w+)?|[a-z]\w*_kernel_cuda|[a-z]\w*_kernel_impl(?!_nocast)|(?!Reduce|Welford)\w+Ops?(?=<))/g;
const NOISE = /\(anonymous namespace\)::|\bat::native::|\bat::cuda::|^void /g;

/** A C++ symbol without wrappers, template arguments and parameters; what is none stays. @param {string} name @returns {string} */
export function plain(name) {
  if (!name.startsWith("void ") && !(name.includes("::") && /[<(]/.test(name))) return name;
  const [base, inner] = split(name.replace(NOISE, ""));
  if (WRAPPER.test(base) && inner) return plain(inner);
  const work = LOOP.test(base) && inner ? inner.match(WORK) : null;
  if (work) return `${work[work.length - 1]} (${base.split("::").pop()})`;
  return base || name;
}

/** What stands before the arguments of the template or the parameters, and what stands between the angle brackets. @param {string} text */
function split(text) {
  const begin = text.search(/[<(]/);
  if (begin < 0) return [text.trim(), ""];
  const base = text.slice(0, begin).trim();
  if (text[begin] === "(") return [base, ""];
  let depth = 0;
  for (let at = begin; at < text.length; at += 1) {
    depth += text[at] === "<" ? 1 : text[at] === ">" ? -1 : 0;
    if (!depth) return [base, text.slice(begin + 1, at)];
  }
  return [base, text.slice(begin + 1)];
}
