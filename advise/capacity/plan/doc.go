// Package plan chooses istiod's replicas, resources and settings for a mesh,
// by a capacity model: a [Request] is read from a file that people wrote
// ([Parse]), [Make] looks for the fewest CPUs that meet its targets, with the
// loss of replicas, and [Plan.YAML] writes them as values for Istio's Helm
// chart, each with its reason. It is pure.
package plan
