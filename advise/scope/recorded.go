package scope

import (
	"bufio"
	"io"

	"github.com/meshtrial/meshtrial/internal/confile"
)

// NodeZtunnel is the node type of ztunnels, the Kind of their [Proxy].
const NodeZtunnel = "ztunnel"

// Read reads what a proxy holds from either kind of document: the config dump
// of an Envoy ([ReadDump]), or what a simulated sidecar was sent
// ([ReadRecorded]). It detects the kind from the beginning.
func Read(r io.Reader, name string, o Options) (Proxy, error) {
	in := bufio.NewReaderSize(r, 4096)
	if start, _ := in.Peek(confile.Probe()); confile.Is(start) { // a shorter document is not one, and an error recurs on the next read
		return ReadRecorded(in, name, o)
	}
	return ReadDump(in, name, o)
}

// ReadRecorded reads a file of package confile, one resource at a time. Sizes
// are those on the wire, and in JSON those that Envoy would print for the same
// resources in a config dump. A file that cannot be read to its end is a usage
// error; what was read so far is returned with it, marked as incomplete.
func ReadRecorded(r io.Reader, name string, o Options) (Proxy, error) {
	scan := NewScanner(o.Keep)
	scan.names.filters = o.Filters.byName()
	in, err := confile.NewReader(r)
	if err != nil {
		return Proxy{Name: name, Incomplete: true}, err
	}
	for err == nil {
		var one confile.Resource
		if one, err = in.Next(); err == nil {
			err = scan.Add(one.TypeURL, one.Name, one.Body)
		}
	}
	p := scan.Proxy(name)
	p.Simulated, p.Kind, p.Alike = true, in.Header.Type, in.Header.Proxies
	if in.Header.Type == NodeZtunnel {
		p.Notes = append(p.Notes, Note{Code: NoteZtunnel, Proxy: name})
	}
	if in.Header.Lost > 0 {
		p.Notes = append(p.Notes, Note{Code: NoteLost, Proxy: name, N: in.Header.Lost})
	}
	if err != io.EOF {
		p.Incomplete = true
		return p, err
	}
	return p, nil
}
