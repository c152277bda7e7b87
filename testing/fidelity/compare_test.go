package fidelity

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Core lists the types that every sidecar needs.
var Core = []string{"cds", "eds", "lds", "rds"}

// Ztunnel lists the types that a ztunnel subscribes to.
var Ztunnel = []string{"wds", "wads"}

// Differences compares the client's side of two transcripts: requests of the given
// types (all types if none are given), their names, nonces and answers, in
// their order over all types. Parts of the node in ignore do not count: "field
// NAME" or "metadata KEY". It returns "" if there are none.
//
// The part before the first mark is compared without repeats, which
// [Transcript.WithoutRepeats] removes.
func Differences(first, second *Transcript, ignore []string, types ...string) string {
	side := func(t *Transcript) []string {
		return slices.Concat([]string{"mode " + t.Mode}, t.node(ignore), t.WithoutRepeats().texts(types))
	}
	return cmp.Diff(side(first), side(second))
}

// node lists what the client first reported about itself.
func (t *Transcript) node(ignore []string) []string {
	var parts []string
	for _, s := range t.Steps {
		if s.Node == nil {
			continue
		}
		parts = append(parts, "node "+s.Node.ID)
		for _, f := range s.Node.Fields {
			parts = append(parts, "field "+f)
		}
		for _, m := range s.Node.Metadata {
			parts = append(parts, "metadata "+m)
		}
		break
	}
	return slices.DeleteFunc(parts, func(p string) bool { return slices.Contains(ignore, p) })
}

// texts returns the client's steps as YAML, with marks between them. Of the
// node it shows only that it is present.
func (t *Transcript) texts(types []string) []string {
	var out []string
	for _, s := range t.Steps {
		if s.Kind != Mark && (s.Kind != FromClient || len(types) > 0 && !slices.Contains(types, s.Type)) {
			continue
		}
		if s.Node != nil {
			s.Node = &Node{ID: "sent"}
		}
		text, err := yaml.Marshal(s)
		if err != nil { // strings and lists of strings
			panic(err)
		}
		out = append(out, string(text))
	}
	return out
}

// WithoutRepeats removes, before the first mark, every response that contains
// only resources whose names appeared earlier on the stream, with its
// acknowledgement. How often istiod pushes while a pod starts is random, and
// says nothing about the client.
func (t *Transcript) WithoutRepeats() *Transcript {
	out := &Transcript{Mode: t.Mode}
	seen := map[string]map[string]bool{}
	repeats := map[string][]bool{} // of each type's unanswered responses, oldest first
	marked := false
	for _, s := range t.Steps {
		switch s.Kind {
		case Mark:
			marked = true
		case FromServer:
			repeat := !marked && seen[s.Type] != nil && len(s.Removed) == 0
			if seen[s.Type] == nil {
				seen[s.Type] = map[string]bool{}
			}
			for _, r := range s.Resources {
				repeat = repeat && seen[s.Type][r.Name]
				seen[s.Type][r.Name] = true
			}
			repeats[s.Type] = append(repeats[s.Type], repeat)
			if repeat {
				continue
			}
		case FromClient:
			if due := repeats[s.Type]; s.Answer != "" && s.Nonce == Due && len(due) > 0 {
				repeats[s.Type] = due[1:]
				if due[0] && s.Answer == Ack {
					continue
				}
			}
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

// Unanswered counts responses of the given types that the client neither
// accepted nor rejected by the end of the transcript.
func (t *Transcript) Unanswered(types ...string) int {
	n := 0
	for _, s := range t.Steps {
		if len(types) > 0 && !slices.Contains(types, s.Type) {
			continue
		}
		if s.Kind == FromServer {
			n++
		} else if s.Answer != "" {
			n--
		}
	}
	return n
}
