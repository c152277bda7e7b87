package fidelity

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// String formats the transcript for people: a line for each step, and below it an indented
// line for each detail.
func (t *Transcript) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mode %s\n", quote(t.Mode))
	for _, s := range t.Steps {
		b.WriteString(s.String())
	}
	return b.String()
}

// String returns the step's lines.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(s.Kind + " " + quote(s.Type))
	if s.Kind == FromClient {
		b.WriteString(" nonce=" + s.Nonce)
		if s.Version != "" {
			b.WriteString(" version=" + s.Version)
		}
		if s.Answer != "" {
			b.WriteString(" " + s.Answer)
		}
	}
	b.WriteByte('\n')
	list := func(word string, names []string) {
		for _, name := range names {
			b.WriteString("  " + word + " " + quote(name) + "\n")
		}
	}
	if s.Node != nil {
		list("node", []string{s.Node.ID})
		list("field", s.Node.Fields)
		list("metadata", s.Node.Metadata)
	}
	list("subscribe", s.Subscribe)
	list("unsubscribe", s.Unsubscribe)
	list("initial", s.Initial)
	for _, r := range s.Resources {
		b.WriteString("  resource " + quote(r.Name))
		for _, ref := range r.Refs {
			b.WriteString(" " + quote(ref))
		}
		b.WriteByte('\n')
	}
	list("removed", s.Removed)
	return b.String()
}

func quote(s string) string {
	if q := strconv.Quote(s); s == "" || s[0] == '#' || strings.ContainsAny(s, " ") || q != `"`+s+`"` {
		return q
	}
	return s
}

// Parse parses a transcript that [Transcript.YAML] wrote.
func Parse(data []byte) (*Transcript, error) {
	t := &Transcript{}
	if err := yaml.UnmarshalStrict(data, t); err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	return t, nil
}

// YAML returns the transcript in its file format.
func (t *Transcript) YAML() ([]byte, error) { return yaml.Marshal(t) }
