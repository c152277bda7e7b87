// Package tuning looks for the best cell of a grid of levers without trying all of
// them: it is given what trials have measured and says which cells the next block
// needs, or why no further one is worth its time. It takes values and returns values;
// who makes the trials, and of what, it does not know.
//
// Each measure of a trial has a model of its own (gauss.go): a Gaussian process over
// the grid, on logarithms, that is the sum of what each lever does and of how levers
// work together, on top of what a simulation expects of a cell where there is one.
// Blocks shift all of their trials alike, and trials scatter; both are estimated from
// cells that were tried more than once. Of the models a belief is made (belief.go):
// the objective and the constraints of every cell, tried or not, with their
// uncertainty. The next block gets the cells of which most improvement is expected
// (choose.go), until hardly any is. front.go finds the cells that no other
// one beats in everything, ladder.go the way from one setting to another in small
// steps.
package tuning
