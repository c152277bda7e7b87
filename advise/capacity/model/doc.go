// Package model is what measured runs say of an istiod, as parameters with
// intervals ([Model]), and what follows from them for a mesh that was not
// measured ([Model.Predict]): convergence, staleness, pushes, bytes, CPU and
// memory with prediction intervals, what the loss of a replica costs
// ([Model.Loss]), and from where on a mesh does not converge ([Model.Limits]).
// Package push simulates the way of changes; this package makes its costs from
// parameters. It is pure, and the same seed gives the same answer.
//
// A prediction's interval has two parts. The parameters are drawn as the
// runs' trials, drawn again, give them ([Model.Draws]). And a model is never
// quite right: the logarithm of measured over predicted, of cells that the fit
// was not shown, scatters by a residual ([Residual]), which is drawn too, as
// Student's t of as many cells. Beyond what was measured the residual grows
// ([Model.spread]).
package model
