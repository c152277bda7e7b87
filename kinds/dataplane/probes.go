package dataplane

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study"
)

// ProbedParts returns the parts of a trial whose pods are probed. A sidecar's pod is that of its
// role.
func ProbedParts() []string {
	out := []string{record.PartGenerator, record.PartWorker}
	for _, p := range record.Proxies {
		if p.Place.Shared() {
			out = append(out, p.Part)
		}
	}
	return out
}

// probeFindings returns what probes count in the pods of parts.
func probeFindings() []finding.Def {
	var out []finding.Def
	for _, p := range probe.All {
		for _, f := range p.Figures {
			for _, part := range ProbedParts() {
				doc := f.Doc
				if strings.Contains(doc, "%s") {
					doc = fmt.Sprintf(doc, "the pod of "+study.PartDoc(part))
				}
				out = append(out, finding.Def{Name: ProbeFinding(f.Name, part), Unit: f.Unit, Doc: doc, Words: f.Words + ", " + study.PartDoc(part),
					Probe: p.Name, Part: part, Section: finding.SectionOther, Compared: true, Differences: finding.SectionOther})
			}
		}
	}
	return out
}

// ProbeFinding returns the name of the finding of a probe's figure:
// "network_bytes_worker_per_request".
func ProbeFinding(figure, part string) string { return figure + "_" + part + "_per_request" }
