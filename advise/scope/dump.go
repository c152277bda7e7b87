package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// MaxResource is the maximum size of a single resource in a dump, in bytes of JSON. It and
// the number of names bound memory; the size of the dump does not matter.
const MaxResource = 64 << 20

// Options configures reading; the zero value is the default.
type Options struct {
	Keep        int   // number of the largest resources to keep by name; 0: DefaultKeep
	MaxResource int64 // bytes; 0: MaxResource
	// Filters are the mesh's EnvoyFilters, to attribute what they add.
	Filters Filters
}

// TakeDump explains what a config dump is and how to take one. The agent asks the Envoy of
// its container, which may lack curl; a ztunnel has neither agent nor curl.
const TakeDump = "a config dump is the JSON that an Envoy or a ztunnel answers to /config_dump, packed with gzip or not; " +
	"take one with: kubectl -n NAMESPACE exec POD -c istio-proxy -- pilot-agent request GET 'config_dump?include_eds' > FILE; " +
	"of a ztunnel: istioctl ztunnel-config all ZTUNNEL-POD.istio-system -o json > FILE"

// DumpError says why a config dump could not be read, and how far reading got.
type DumpError struct {
	Offset    int64 // bytes from the beginning
	Resources int   // read before the error
	Err       error
}

func (e *DumpError) Error() string {
	after := fmt.Sprintf("%d resources", e.Resources)
	if e.Resources == 1 {
		after = "1 resource"
	}
	return fmt.Sprintf("config dump: byte %d, after %s: %v", e.Offset, after, e.Err)
}

func (e *DumpError) Unwrap() error { return e.Err }

// ErrCut reports a truncated dump.
var ErrCut = errors.New("it ends in the middle: the file was cut short")

// sections are the types of the entries of "configs"
// (envoy/admin/v3/config_dump.proto, config_dump_shared.proto).
var sections = map[string]string{
	"BootstrapConfigDump": TypeBootstrap, "ClustersConfigDump": TypeCluster, "EndpointsConfigDump": TypeEndpoint,
	"ListenersConfigDump": TypeListener, "RoutesConfigDump": TypeRoute, "SecretsConfigDump": TypeSecret, "EcdsConfigDump": TypeExtension,
}

// ReadDump reads the answer of an Envoy's /config_dump, preferably with ?include_eds, or
// of a ztunnel's, one resource at a time. For anything but a complete dump (for an Envoy,
// of API v3) it fails with a *DumpError, which is a usage error, and returns what it has
// read so far, marked as incomplete.
func ReadDump(r io.Reader, name string, o Options) (Proxy, error) {
	if o.MaxResource <= 0 {
		o.MaxResource = MaxResource
	}
	d := &dumpReader{stream: newStream(r, "/config_dump", o.MaxResource), scan: NewScanner(o.Keep), seen: map[string]bool{}}
	g := d.guard
	d.scan.names.filters = o.Filters.byName()
	err := d.document()
	if around := g.read - d.scan.total.dump; around > 0 {
		d.scan.frame(around)
	}
	p := d.scan.Proxy(name)
	p.Node = d.node
	if d.isZtunnel() {
		p.Kind = NodeZtunnel
	} else if err == nil && !d.endpoints {
		p.Notes = append(p.Notes, Note{Code: NoteNoEndpoints})
	}
	if err == nil {
		return p, nil
	}
	p.Incomplete = true
	failure := &DumpError{Offset: d.json.InputOffset(), Resources: d.resources, Err: err}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		failure.Err = ErrCut
		if failure.Offset = g.read; g.read == 0 {
			failure.Err = errors.New("it is empty")
		}
	case g.err != nil: // a failure of the reader itself, not of the dump
		failure.Offset = g.read
		return p, failure
	}
	return p, errs.WithHint(errs.WithCode(failure, errs.CodeUsage), "%s", TakeDump)
}

// frame counts the bytes around the resources.
func (s *Scanner) frame(bytes int64) {
	s.types[TypeFrame] = TypeSize{Type: TypeFrame, DumpBytes: bytes, StaticBytes: bytes}
	s.total.dump += bytes
	s.give(by(frame), sizes{dump: bytes})
}

type dumpReader struct {
	*stream
	scan      *Scanner
	resources int
	endpoints bool
	node      *Node
	sections  int             // in an Envoy's dump
	seen      map[string]bool // in a ztunnel's dump
}

func (d *dumpReader) document() error {
	err := d.object(func(key string) error {
		switch {
		case key == "configs":
			return d.list(key, func() error {
				d.sections++
				return d.section()
			})
		case ztunnelMembers[key] != nil:
			d.seen[key] = true
			return d.ztunnelMember(key)
		}
		return d.skip()
	})
	if err == nil && d.sections == 0 && !d.isZtunnel() {
		err = d.lacks("configs")
	}
	return err
}

func (d *dumpReader) section() error {
	if err := d.expect('{', `an entry of "configs"`); err != nil {
		return err
	}
	typ, err := d.sectionType()
	if err != nil {
		return err
	}
	return d.members(func(member string) error {
		if member == "bootstrap" && typ == TypeBootstrap {
			r, err := d.value()
			if err == nil {
				d.resource(typ, member, r)
				d.node = nodeOf(r)
			}
			return err
		}
		t, err := d.token()
		switch {
		case err != nil:
			return err
		case t == json.Delim('['):
			return d.entries(func() error {
				r, err := d.entry(member)
				if err == nil {
					d.resource(typ, member, r)
				}
				return err
			})
		case t == json.Delim('{'):
			return d.members(func(string) error { return d.skip() })
		}
		return nil
	})
}

// entry reads an entry of a member, which must be an object.
func (d *dumpReader) entry(member string) (jsonNode, error) {
	r, err := d.value()
	if err == nil && (len(r) == 0 || r[0] != '{') {
		err = fmt.Errorf("%q has an entry that is no object", member)
	}
	return r, err
}

// sectionType reads "@type", which Envoy writes first.
func (d *dumpReader) sectionType() (string, error) {
	key, err := d.token()
	if err != nil {
		return "", err
	}
	value, err := d.token()
	if err != nil {
		return "", err
	}
	url, ok := value.(string)
	if key != "@type" || !ok {
		return "", errors.New(`an entry of "configs" does not begin with its "@type"`)
	}
	name, ok := strings.CutPrefix(url[strings.LastIndexByte(url, '/')+1:], "envoy.admin.v3.")
	if !ok {
		return "", fmt.Errorf("it has a section of type %.100q; only Envoy's admin API v3 is understood", url)
	}
	typ, known := sections[name]
	if !known {
		typ = TypeOther
	}
	d.endpoints = d.endpoints || typ == TypeEndpoint
	return typ, nil
}

// resource counts an entry of a section: the resource and Envoy's remarks about it
// (version, time).
func (d *dumpReader) resource(typ, member string, entry jsonNode) {
	static := typ == TypeBootstrap || strings.HasPrefix(member, "static_")
	j := d.scan.names.judge(typ, inside(typ, entry), static)
	d.scan.count(typ, static, j, sizes{dump: entry.size()}, nil)
	d.resources++
}

// places are where the entries of a section hold their resource. A listener may appear in several
// states; the active one counts.
var places = map[string][][]string{
	TypeCluster:   {{"cluster"}},
	TypeEndpoint:  {{"endpoint_config"}},
	TypeRoute:     {{"route_config"}},
	TypeExtension: {{"ecds_filter"}},
	TypeListener: {{"active_state", "listener"}, {"warming_state", "listener"}, {"draining_state", "listener"},
		{"listener"}},
}

// inside finds the resource in an entry.
func inside(typ string, entry jsonNode) node {
	for _, place := range places[typ] {
		if n := path(entry, place...); n.size() > 0 {
			return n
		}
	}
	return entry
}

// nodeOf reads which proxy a bootstrap belongs to; nil if it does not say. The ID of its
// node is TYPE~IP~POD.NAMESPACE~DOMAIN.
func nodeOf(bootstrap node) *Node {
	id := strings.Split(path(bootstrap, "node", "id").text(), "~")
	metadata := path(bootstrap, "node", "metadata")
	n := &Node{Type: id[0], Namespace: metadata.get("NAMESPACE").text(), Workload: metadata.get("WORKLOAD_NAME").text(), Labels: map[string]string{}}
	if n.Namespace == "" {
		return nil
	}
	if len(id) == 4 {
		n.Pod, _ = strings.CutSuffix(id[2], "."+n.Namespace)
	}
	metadata.get("LABELS").members(func(key string, value node) { n.Labels[key] = value.text() })
	return n
}
