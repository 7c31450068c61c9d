"""Coverage and width of intervals for dependent data, by the declared dependence."""
