// Package tuning finds the best cell of a grid of levers without trying all of them.
// Given what trials have measured, it returns the cells for the next block, or the
// reason why no further block is worth its time. It takes and returns values; it does
// not know who runs the trials, or of what.
//
// Each measure of a trial has its own model (gauss.go): a Gaussian process over the
// grid, on logarithms. It is the sum of the effects of each lever and of their
// interactions, on top of what a simulation expects of a cell, if there is one.
// Blocks shift all of their trials together, and trials scatter; both are estimated
// from cells that were tried more than once. The models combine into a belief
// (belief.go): the objective and the constraints of every cell, tried or not, with
// their uncertainty. The next block gets the cells with the highest expected
// improvement (choose.go), until hardly any is left. front.go finds the
// Pareto-optimal cells, and ladder.go the way from one setting to another in small
// steps.
package tuning
