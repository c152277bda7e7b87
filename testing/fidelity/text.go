package fidelity

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The text of a transcript has a line for each step and, indented below it,
// a line for each detail:
//
//	mode delta
//	client cds nonce=none
//	  node sidecar~ADDRESS1~POD.NAMESPACE~NAMESPACE.svc.cluster.local
//	  field cluster
//	  metadata CLUSTER_ID
//	server cds
//	  resource outbound|80||a.default.svc.cluster.local eds=outbound|80||a.default.svc.cluster.local
//	client cds nonce=due ack
//	mark service added
//
// Texts with blanks in them are quoted as in Go. Empty lines and lines that
// begin with # are skipped.

// maxText bounds a transcript's text, bytes.
const maxText = 16 << 20

// WriteTo writes the transcript as text.
func (t *Transcript) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, t.String())
	return int64(n), err
}

// String returns the transcript as text.
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

// Parse reads a transcript's text. The error names the line, from 1.
func Parse(r io.Reader) (*Transcript, error) {
	t := &Transcript{}
	scanner := bufio.NewScanner(io.LimitReader(r, maxText))
	scanner.Buffer(nil, maxText)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		words, err := split(strings.TrimSpace(line))
		if err == nil {
			err = t.line(strings.HasPrefix(line, " "), words)
		}
		if err != nil {
			return nil, fmt.Errorf("transcript line %d: %w", n, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	if t.Mode == "" {
		return nil, fmt.Errorf("transcript: no line with its mode")
	}
	return t, nil
}

// split cuts a line at blanks, except in quotes.
func split(line string) ([]string, error) {
	var words []string
	for line != "" {
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("quotes not closed: %.60q", line)
			}
			word, err := strconv.Unquote(q)
			if err != nil {
				return nil, fmt.Errorf("%.60q: %w", q, err)
			}
			words, line = append(words, word), strings.TrimLeft(line[len(q):], " ")
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		words, line = append(words, word), strings.TrimLeft(rest, " ")
	}
	return words, nil
}

// line takes in one line, cut into words.
func (t *Transcript) line(indented bool, words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("%.60q: want a word and what it is about", words)
	}
	if indented {
		if len(t.Steps) == 0 {
			return fmt.Errorf("%.60q: no step yet that it could belong to", words)
		}
		return t.Steps[len(t.Steps)-1].detail(words)
	}
	switch words[0] {
	case "mode":
		t.Mode = words[1]
		return nil
	case FromServer:
		t.Steps = append(t.Steps, Step{Kind: FromServer, Type: words[1]})
		return nil
	case Mark:
		t.Steps = append(t.Steps, Step{Kind: Mark, Type: words[1]})
		return nil
	case FromClient:
	default:
		return fmt.Errorf("%.60q: want mode, client, server or mark", words[0])
	}
	s := Step{Kind: FromClient, Type: words[1]}
	for _, word := range words[2:] {
		switch key, value, _ := strings.Cut(word, "="); {
		case key == "nonce" && slices.Contains([]string{None, Due, Again, Other}, value):
			s.Nonce = value
		case key == "version" && slices.Contains([]string{None, Due, Again, Other}, value):
			s.Version = value
		case word == Ack || word == Nack:
			s.Answer = word
		default:
			return fmt.Errorf("%.60q: want nonce=, version= (none, due, again, other), ack or nack", word)
		}
	}
	if s.Nonce == "" {
		return fmt.Errorf("a client's step without nonce=")
	}
	t.Steps = append(t.Steps, s)
	return nil
}

// detail takes in an indented line.
func (s *Step) detail(words []string) error {
	name := words[1]
	lists := map[string]*[]string{"subscribe": &s.Subscribe, "unsubscribe": &s.Unsubscribe, "initial": &s.Initial, "removed": &s.Removed}
	if s.Node != nil {
		lists["field"], lists["metadata"] = &s.Node.Fields, &s.Node.Metadata
	}
	switch list, ok := lists[words[0]]; {
	case ok:
		*list = append(*list, name)
	case words[0] == "node":
		s.Node = &Node{ID: name}
	case words[0] == "resource":
		s.Resources = append(s.Resources, Resource{Name: name, Refs: words[2:]})
		if len(words) == 2 {
			s.Resources[len(s.Resources)-1].Refs = nil
		}
	default:
		return fmt.Errorf("%.60q: want node, field, metadata, subscribe, unsubscribe, initial, resource or removed", words[0])
	}
	return nil
}
