package fidelity

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Modes of the discovery protocol, named as package xds does.
const (
	ModeDelta = "delta"
	ModeSotW  = "sotw"
)

// Kinds of step.
const (
	FromClient = "client" // a request
	FromServer = "server" // a response
	Mark       = "mark"   // a remark of who recorded: what was done to the mesh
)

// Nonces and versions of a request, compared with what the server sent.
const (
	None = "none"
	// Due is the nonce of the oldest response of the type that is not
	// answered yet, or that response's version.
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

// Transcript is what passed on one discovery stream, in the order in which
// the recorder saw it.
type Transcript struct {
	Mode  string `json:"mode"` // ModeDelta or ModeSotW
	Steps []Step `json:"steps"`
}

// Step is one message of either side, or a mark.
type Step struct {
	Kind string `json:"kind"` // FromClient, FromServer or Mark
	// Type is the short name of the resources' type: cds, eds, lds, rds,
	// nds, ecds, sds, pcds, health, wds, wads; anything else is the type URL. The text
	// of a Mark is kept here too.
	Type string `json:"type"`

	// Of a request: the names it subscribes to and those it lets go, sorted
	// (in state of the world, Subscribe is all names).
	Subscribe   []string `json:"subscribe,omitempty"`
	Unsubscribe []string `json:"unsubscribe,omitempty"`
	// Initial has the names of which the client said that it holds a
	// version, sorted.
	Initial []string `json:"initial,omitempty"`
	Nonce   string   `json:"nonce,omitempty"`   // None, Due, Again or Other
	Version string   `json:"version,omitempty"` // the same, of a state-of-the-world request; else ""
	Answer  string   `json:"answer,omitempty"`  // Ack, Nack or "" for none
	Node    *Node    `json:"node,omitempty"`    // nil if the request carries none

	// Of a response.
	Resources []Resource `json:"resources,omitempty"`
	Removed   []string   `json:"removed,omitempty"` // sorted
}

// Node is what a client said of itself.
type Node struct {
	ID       string   `json:"id"`
	Fields   []string `json:"fields,omitempty"`   // names of the fields set, sorted
	Metadata []string `json:"metadata,omitempty"` // keys of its metadata, sorted
}

// Resource is what a response brought, without its body.
type Resource struct {
	Name string `json:"name"`
	// Refs are the resources that it makes a client ask for: TYPE=NAME, for
	// instance eds=NAME of a cluster and rds=NAME of a listener; sorted.
	Refs []string `json:"refs,omitempty"`
}

// Requests returns the client's steps of the given types, or all.
func (t *Transcript) Requests(types ...string) []Step {
	var out []Step
	for _, s := range t.Steps {
		if s.Kind == FromClient && (len(types) == 0 || slices.Contains(types, s.Type)) {
			out = append(out, s)
		}
	}
	return out
}

// NodeID returns the node's identity, or "".
func (t *Transcript) NodeID() string {
	for _, s := range t.Steps {
		if s.Node != nil {
			return s.Node.ID
		}
	}
	return ""
}

var ipv4 = regexp.MustCompile(`\d{1,3}(\.\d{1,3}){3}`)

// Normalise replaces, in a copy, every address by a token that the same
// address shares (in the order of addresses, so that two recordings of one
// mesh agree; wildcard and loopback addresses stay), and each of the given
// texts, for instance the name of a pod, by what stands for it.
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

// eachText returns a copy with every text passed through change, sorted
// again.
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
