package xds

import (
	"bytes"
	"hash/maphash"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// content is one distinct resource: a body under a name with a version.
type content struct {
	kind    kind
	name    uint32
	id      uint64 // unique in the catalogue
	sum     uint64 // digest of the body
	size    int    // bytes of the body
	version string
	// start is when the latest change of the name to this content began: when a proxy
	// first got it after the name last had another content, ns since 1970.
	start atomic.Int64

	// Names that the body refers to.
	refs  []uint32 // numbers of names: endpoints of a cluster, routes of a listener
	exts  []uint32 // extensions of a listener
	fault error    // why it could not be read

	mu       sync.Mutex
	body     []byte  // nil: not kept
	searched int     // number of markers searched for so far
	holds    []int32 // of these, the markers it shows
	unknown  []int32 // of these, the markers that could not be searched for
}

type contentKey struct {
	kind    kind
	name    uint32
	sum     uint64
	size    int
	version string
}

// intern returns the content of a resource, parsing raw only if the same bytes
// were not received before; sum is their hash. c.mu is held.
func (c *catalogue) intern(k kind, raw []byte, sum uint64, at int64) (*content, error) {
	variant := sum + mix(uint64(k)) // two kinds may have the same bytes
	if known := c.variants.get(variant); known != nil {
		return known, nil
	}
	r, err := wire.ParseResource(raw, kindURLs[k], c.delta)
	if err != nil {
		return nil, err
	}
	key := contentKey{kind: k, name: c.nameID(k, r.Name), size: len(r.Body), version: string(r.Version)}
	key.sum = wire.Digest(kindURLs[k], r.Body, func(b []byte) uint64 { return maphash.Bytes(c.seed, b) })
	known := c.contents.get(key)
	if known == nil {
		known = c.add(key, r.Body, at)
	}
	c.variants.put(variant, known)
	return known, nil
}

// add creates a new content. c.mu is held.
func (c *catalogue) add(key contentKey, body []byte, at int64) *content {
	k := key.kind
	c.nextID++
	out := &content{kind: k, name: key.name, id: c.nextID, sum: key.sum, size: key.size, version: key.version}
	out.start.Store(at)
	c.refer(out, body)
	if n := int64(len(body)); c.bodies.Load()+n <= keptBodies {
		out.body = bytes.Clone(body)
		c.bodies.Add(n)
		kept := c.bodies // a copy, because a cleanup that refers to the catalogue would keep it alive
		runtime.AddCleanup(out, func(n int64) { kept.Add(-n) }, n)
	}
	// Search for the markers announced so far while the body is at hand.
	out.search(c.names[k].list[out.name], body, *c.markers.Load())
	c.contents.put(key, out)
	return out
}

// refer records the names that a body refers to. c.mu is held.
func (c *catalogue) refer(out *content, body []byte) {
	switch out.kind {
	case cds:
		cluster, err := wire.ParseCluster(body)
		if out.fault = err; err == nil && cluster.EDS {
			out.refs = []uint32{c.nameID(eds, cluster.ServiceName)}
		}
	case lds:
		listener, err := wire.ParseListener(body)
		if out.fault = err; err != nil {
			return
		}
		for _, name := range listener.Routes {
			out.refs = append(out.refs, c.nameID(rds, name))
		}
		for _, name := range listener.Extensions {
			out.exts = append(out.exts, c.nameID(ecds, name))
		}
	}
}

// search searches the body for markers that it has not been searched for yet.
func (t *content) search(name string, body []byte, markers []marker) {
	for i := t.searched; i < len(markers); i++ {
		m := &markers[i]
		if m.kind != t.kind || (m.Resource != "" && m.Resource != name) {
			continue
		}
		switch {
		case m.ip == nil && bytes.Contains([]byte(name), m.text):
			t.holds = append(t.holds, int32(i))
		case body == nil && t.size > 0:
			t.unknown = append(t.unknown, int32(i))
		case m.shownBy(body):
			t.holds = append(t.holds, int32(i))
		}
	}
	t.searched = len(markers)
}

// shownBy reports whether a body of the marker's kind shows its text. An address
// in endpoints and workloads has to match as a whole and be ready for traffic: a
// longer address may begin with it, and unready ones are listed too.
func (m *marker) shownBy(body []byte) bool {
	switch {
	case m.ip == nil:
		return bytes.Contains(body, m.text)
	case m.kind == wds:
		if !bytes.Contains(body, m.ip) { // nearly always
			return false
		}
		healthy, err := wire.Healthy(body, m.ip)
		return err == nil && healthy
	}
	serves, err := wire.Serves(body, m.text)
	if err != nil {
		return bytes.Contains(body, m.text)
	}
	return serves
}

// addressOf parses a text as an address, for the kinds that have addresses; nil if it is
// not one.
func addressOf(k kind, text string) []byte {
	if k != eds && k != wds {
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return a.AsSlice()
}

// shown returns the markers announced so far that a content shows.
func (c *catalogue) shown(t *content) (holds, unknown []int32) {
	markers := *c.markers.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.searched < len(markers) {
		t.search(c.name(t.kind, t.name), t.body, markers)
	}
	return t.holds, t.unknown
}
