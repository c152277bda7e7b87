// Package model describes an istiod that runs have measured, as parameters with
// intervals ([Model]), and predicts a mesh that was not measured
// ([Model.Predict]): convergence, staleness, pushes, bytes, CPU and memory with
// prediction intervals, the cost of losing a replica ([Model.Loss]), and the
// size at which a mesh no longer converges ([Model.Limits]). Package push
// simulates the propagation of changes; this package derives its costs from the
// parameters. It is pure, and the same seed gives the same answer.
//
// A prediction's interval has two parts. Parameters are drawn from resamples of
// the runs' trials ([Model.Draws]). In addition, a model is never quite right:
// the logarithm of measured over predicted, for cells excluded from the fit,
// scatters by a residual ([Residual]). That is drawn too, from Student's t with
// the same number of cells. Beyond the measured range the residual grows
// ([Model.spread]).
package model
