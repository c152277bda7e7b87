// Package plan chooses istiod's replicas, resources and settings for a mesh,
// using a capacity model. [Parse] reads a [Request] from a file written by
// people. [Make] finds the fewest CPUs that meet its targets, including the
// loss of replicas. [Plan.YAML] writes them as values for Istio's Helm chart,
// each with its reason. The package is pure.
package plan
