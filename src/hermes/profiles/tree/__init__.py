"""The time tree of a job: joins the leaves of its ranks; each wait for a rank is replaced by what delayed that rank."""
