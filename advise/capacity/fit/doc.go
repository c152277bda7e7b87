// Package fit fits a [model.Model] to runs of control-plane studies: each trial
// becomes an [Observation], and observations become parameters with intervals. It is
// pure, and the same runs and seed give the same model.
//
//   - istiod's CPU time, without its idle use and without push contexts, is fitted to
//     the pushes of all types together by non-negative least squares: a part for each
//     push, for each change in it, for each service that the proxy sees, for services
//     whose endpoints are sent in full or whose routes are regenerated, and for each
//     change regardless of the number of proxies. A calm trial, whose pushes do not
//     overlap, has an equation for each type, from istiod's own timers
//     (pilot_xds_push_time). So has any other trial with a CPU profile, from the time
//     in each type's generator; without a profile it has one equation for all types.
//     The CPU time includes everything that istiod does for a push, such as transport
//     and garbage collection.
//   - istiod does not count which pushes were full or regenerated. It comes from
//     simulating each trial's changes with the parameters fitted so far, and fitting
//     again.
//   - Errors are relative to the measured value, so small cells count as much as large
//     ones.
//   - How much of a turn's CPU time lies on its own path ([model.Parallel]) is found
//     by simulating the changes of calm trials until waiting and turn take as long as
//     pilot_proxy_convergence_time reports.
//   - Intervals come from resampling trials within their cells (bootstrap). Residuals
//     come from cells that were left out of the fit.
//
// A parameter that the runs' levels cannot distinguish from others is reported with a
// study that would.
package fit
