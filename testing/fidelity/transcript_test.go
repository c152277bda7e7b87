package fidelity

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Modes of the discovery protocol, named as in package xds.
const (
	ModeDelta = "delta"
	ModeSotW  = "sotw"
)

// Kinds of step.
const (
	FromClient = "client" // a request
	FromServer = "server" // a response
	Mark       = "mark"   // a remark by the recording side: what was done to the mesh
)

// Nonces and versions of a request, relative to what the server sent.
const (
	None = "none"
	// Due is the nonce or version of the oldest unanswered response of the type.
	Due = "due"
	// Again is the nonce or version of the response that was answered last.
	Again = "again"
	Other = "other" // any other
)

// Answers of a request to a response.
const (
	Ack  = "ack"
	Nack = "nack"
)

// Transcript holds the messages of one discovery stream, in the order in which the
// recorder saw them.
type Transcript struct {
	Mode  string `json:"mode"` // ModeDelta or ModeSotW
	Steps []Step `json:"steps"`
}

// Step is a message from either side, or a mark.
type Step struct {
	Kind string `json:"kind"` // FromClient, FromServer or Mark
	// Type is the short name of the resources' type: cds, eds, lds, rds,
	// nds, ecds, sds, pcds, health, wds, wads; anything else is the type URL. The text
	// of a Mark is kept here too.
	Type string `json:"type"`

	// For a request: the names to subscribe to and to unsubscribe from, sorted (in
	// state of the world, Subscribe has all names).
	Subscribe   []string `json:"subscribe,omitempty"`
	Unsubscribe []string `json:"unsubscribe,omitempty"`
	// Initial has the names of which the client reported holding a version, sorted.
	Initial []string `json:"initial,omitempty"`
	Nonce   string   `json:"nonce,omitempty"`   // None, Due, Again or Other
	Version string   `json:"version,omitempty"` // the same, of a state-of-the-world request; else ""
	Answer  string   `json:"answer,omitempty"`  // Ack, Nack or "" for none
	Node    *Node    `json:"node,omitempty"`    // nil if the request has none

	// For a response.
	Resources []Resource `json:"resources,omitempty"`
	Removed   []string   `json:"removed,omitempty"` // sorted
}

// Node is what a client reported about itself.
type Node struct {
	ID       string   `json:"id"`
	Fields   []string `json:"fields,omitempty"`   // names of the fields set, sorted
	Metadata []string `json:"metadata,omitempty"` // keys of its metadata, sorted
}

// Resource is a resource in a response, without its body.
type Resource struct {
	Name string `json:"name"`
	// Refs are the resources that it makes a client request: TYPE=NAME, for example
	// eds=NAME for a cluster and rds=NAME for a listener; sorted.
	Refs []string `json:"refs,omitempty"`
}

// NodeID returns the node's ID, or "".
func (t *Transcript) NodeID() string {
	for _, s := range t.Steps {
		if s.Node != nil {
			return s.Node.ID
		}
	}
	return ""
}

var ipv4 = regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}`)

// Normalise returns a copy in which every address is replaced by a token, the same for
// the same address, and each key of texts, such as the name of a pod, by its value.
// Tokens follow the order of addresses, so that two recordings of one mesh agree;
// wildcard and loopback addresses stay.
func (t *Transcript) Normalise(texts map[string]string) *Transcript {
	var pairs []string
	for from, to := range texts {
		pairs = append(pairs, from, to)
	}
	named := strings.NewReplacer(pairs...)
	found := map[netip.Addr]bool{}
	t.eachText(func(s string) string {
		for _, m := range ipv4.FindAllString(s, -1) {
			if a, err := netip.ParseAddr(m); err == nil && !a.IsUnspecified() && !a.IsLoopback() {
				found[a] = true
			}
		}
		return s
	})
	var order []netip.Addr
	for a := range found {
		order = append(order, a)
	}
	slices.SortFunc(order, netip.Addr.Compare)
	token := map[string]string{}
	for i, a := range order {
		token[a.String()] = fmt.Sprintf("ADDRESS%d", i+1)
	}
	return t.eachText(func(s string) string {
		return ipv4.ReplaceAllStringFunc(named.Replace(s), func(m string) string {
			if to, ok := token[m]; ok {
				return to
			}
			return m
		})
	})
}

// eachText returns a copy in which change has been applied to every text, with lists
// sorted again.
func (t *Transcript) eachText(change func(string) string) *Transcript {
	each := func(in []string) []string {
		var out []string
		for _, s := range in {
			out = append(out, change(s))
		}
		slices.Sort(out)
		return out
	}
	out := &Transcript{Mode: t.Mode}
	for _, s := range t.Steps {
		s.Subscribe, s.Unsubscribe = each(s.Subscribe), each(s.Unsubscribe)
		s.Initial, s.Removed = each(s.Initial), each(s.Removed)
		if s.Node != nil {
			s.Node = &Node{ID: change(s.Node.ID), Fields: s.Node.Fields, Metadata: s.Node.Metadata}
		}
		resources := s.Resources
		s.Resources = nil
		for _, r := range resources {
			s.Resources = append(s.Resources, Resource{Name: change(r.Name), Refs: each(r.Refs)})
		}
		slices.SortStableFunc(s.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
		out.Steps = append(out.Steps, s)
	}
	return out
}
