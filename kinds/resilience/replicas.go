package resilience

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// ReplicasOfGraph takes the number of pods from the graph.
const ReplicasOfGraph = "graph"

// The resources of all proxies of a mesh per additional pod, and the rest without any pods.
const (
	FindingPodCPU     = "cpu_proxies_per_pod"
	FindingBareCPU    = "cpu_proxies_without_pods"
	FindingPodMemory  = "memory_proxies_per_pod"
	FindingBareMemory = "memory_proxies_without_pods"
)

// replicasFactor is the number of pods. Each trial deploys its own pods.
var replicasFactor = study.Factor{
	Name: study.FactorReplicas, Scope: study.ScopeTopology, Unit: "pods", Default: ReplicasOfGraph, Implied: true, Numeric: true,
	Doc:      "Pods of each service instead of the graph's; graph keeps those. The rate remains that of all requests together.",
	Pattern:  `^(graph|[1-9][0-9]*)$`,
	Examples: []string{ReplicasOfGraph, "1", "10"},
	Parse:    replicasLevel, Plain: &study.PlainNumber{Max: graph.MaxReplicas, Word: ReplicasOfGraph},
}.Labelled(study.Says("%s pods a service", ReplicasOfGraph, "pods of the graph", "1", "1 pod a service")).
	Phrased(study.Says("with %s pods of each service", ReplicasOfGraph, "with the pods of the graph", "1", "with one pod of each service"))

func replicasLevel(s string) (string, *study.Error) {
	if s == ReplicasOfGraph {
		return s, nil
	}
	level, c := study.IntegerLevel(1, graph.MaxReplicas)(s)
	if c != nil && c.Hint == "" {
		c.Hint = "a number of pods, or " + ReplicasOfGraph
	}
	return level, c
}

// In returns the scenario of a cell, which may change numbers of pods.
func (c *Scenario) In(cell record.Cell) *Scenario {
	n, err := strconv.Atoi(cell[study.FactorReplicas])
	if err != nil {
		return c
	}
	out := *c
	out.Graph.Services = slices.Clone(c.Graph.Services)
	for i := range out.Graph.Services {
		out.Graph.Services[i].Replicas = n
	}
	return &out
}

// podFindings returns the lines over the number of pods.
func podFindings() []finding.Def {
	one := func(name, unit, words, doc string) finding.Def {
		return finding.Def{Name: name, Unit: unit, Words: words, Doc: doc, Probe: study.ProbeFit, Source: finding.FromFits, Section: finding.SectionOther, Signed: true}
	}
	return []finding.Def{
		one(FindingPodCPU, finding.UnitMilliCPU, "CPU of all proxies per additional pod", "CPU of all proxies together per additional pod in the mesh, at the same rate."),
		one(FindingBareCPU, finding.UnitMilliCPU, "fixed CPU of all proxies", "Their remaining CPU: the intercept of the line over the number of pods."),
		one(FindingPodMemory, finding.UnitBytes, "memory of all proxies per additional pod", "Memory of all proxies together per additional pod in the mesh."),
		one(FindingBareMemory, finding.UnitBytes, "fixed memory of all proxies", "Their remaining memory."),
	}
}
