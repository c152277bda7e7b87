package fidelity

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Core lists the types that every sidecar needs.
var Core = []string{"cds", "eds", "lds", "rds"}

// Ztunnel lists the types that a ztunnel subscribes to.
var Ztunnel = []string{"wds", "wads"}

// Comparison says how similar two clients are.
type Comparison struct {
	// SameSteps is the number of steps of the compared types that are the same
	// in the same order, and Steps the number in the longer transcript.
	SameSteps, Steps int
	// SameNode counts the fields and metadata keys that both nodes have, and
	// Node those that either has.
	SameNode, Node int
	// Diff has a line for each step and each part of the node that only one of
	// them has, marked - (the first) or + (the second), among the steps that
	// both have; "" if there are no differences.
	Diff string
}

// Score is the share of identical steps and parts of the node, 0 to 1.
func (c Comparison) Score() float64 {
	if c.Steps+c.Node == 0 {
		return 0
	}
	return float64(c.SameSteps+c.SameNode) / float64(c.Steps+c.Node)
}

// String formats the score for people.
func (c Comparison) String() string {
	return fmt.Sprintf("%.1f%%: %d of %d steps, %d of %d parts of the node", 100*c.Score(), c.SameSteps, c.Steps, c.SameNode, c.Node)
}

// Compare compares the client's side of two transcripts: requests of the given
// types (all types if none are given), their names, nonces and answers, in
// their order over all types. Parts of the node in ignore do not count: "field
// NAME" or "metadata KEY".
//
// The part before the first mark is compared without repeats, which
// [Transcript.WithoutRepeats] removes.
func Compare(first, second *Transcript, ignore []string, types ...string) Comparison {
	var c Comparison
	a, b := first.WithoutRepeats().texts(types), second.WithoutRepeats().texts(types)
	var diff strings.Builder
	if first.Mode != second.Mode {
		fmt.Fprintf(&diff, "- mode %s\n+ mode %s\n", first.Mode, second.Mode)
	}
	nodeA, nodeB := first.node(ignore), second.node(ignore)
	for _, part := range nodeA {
		if slices.Contains(nodeB, part) {
			c.SameNode++
		} else {
			fmt.Fprintf(&diff, "- %s\n", part)
		}
		c.Node++
	}
	for _, part := range nodeB {
		if !slices.Contains(nodeA, part) {
			fmt.Fprintf(&diff, "+ %s\n", part)
			c.Node++
		}
	}
	c.Steps = max(len(a), len(b))
	differ := diff.Len() > 0
	for _, line := range align(a, b) {
		if line.mark == ' ' {
			c.SameSteps++
		} else {
			differ = true
		}
		diff.WriteString(line.String())
	}
	if differ {
		c.Diff = diff.String()
	}
	return c
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

// line is a step in one or both of two lists.
type line struct {
	mark byte // ' ' in both, '-' in the first, '+' in the second
	text string
}

func (l line) String() string {
	text := strings.TrimSuffix(l.text, "\n")
	return string(l.mark) + " " + strings.ReplaceAll(text, "\n", "\n"+string(l.mark)+" ") + "\n"
}

// align finds a longest common subsequence of two lists.
func align(a, b []string) []line {
	// length[i][j] is the length for a[i:] and b[j:].
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []line
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, line{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out = append(out, line{'-', a[i]})
			i++
		default:
			out = append(out, line{'+', b[j]})
			j++
		}
	}
	return out
}
