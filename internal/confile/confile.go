// Package confile reads and writes files with the configuration that one proxy holds, as istiod
// sent it: a line of JSON that identifies the proxy, then a line for each resource with its body
// as protobuf in base64.
//
//	simulated sidecar (xds) -> [Writer] -> file -> [Reader] -> scope: who brought which bytes
//	                                                        -> testing/xdsserver: serves it again
//
// Files are read and written one resource at a time. They are stored compressed with gzip,
// usually with the extension .xds.gz.
package confile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Schema is the version of the file.
const Schema = 1

// Extension is the extension of such files.
const Extension = ".xds.gz"

// Header is the first line.
type Header struct {
	// Schema comes first: [Is] looks for it.
	Schema int `json:"meshtrial_configuration"`
	// Proxy is the NAME.NAMESPACE of the proxy that holds this configuration, Type the type of
	// its node (sidecar, router).
	Proxy string `json:"proxy"`
	Type  string `json:"type"`
	// Proxies is the number of proxies of its kind, which it represents; 0 if they were not
	// counted.
	Proxies int `json:"proxies,omitempty"`
	// Lost counts resources that it held but that are not in the file, as their bodies were not
	// kept.
	Lost int `json:"lost,omitempty"`
}

// Resource is one resource.
type Resource struct {
	TypeURL string `json:"type"` // of the body
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Body    []byte `json:"body"` // protobuf
}

// Writer writes a file.
type Writer struct{ json *json.Encoder }

// NewWriter writes the header and returns a Writer for the resources.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Schema = Schema
	out := &Writer{json: json.NewEncoder(w)}
	if err := out.json.Encode(h); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", h.Proxy, err)
	}
	return out, nil
}

// Write adds a resource.
func (w *Writer) Write(r Resource) error {
	if err := w.json.Encode(r); err != nil {
		return fmt.Errorf("resource %q: %w", r.Name, err)
	}
	return nil
}

// MaxLine is the maximum length of a line, in bytes: a resource of 64 MB.
const MaxLine = 96 << 20

// begin is the beginning of every file.
var begin = []byte(`{"meshtrial_configuration":`)

// Is reports whether a document with this beginning is a file of this format.
func Is(start []byte) bool { return bytes.HasPrefix(start, begin) }

// Probe returns the number of bytes that [Is] needs.
func Probe() int { return len(begin) }

// Reader reads a file.
type Reader struct {
	Header Header
	in     *bufio.Reader
	line   int
}

// NewReader reads the header. A file of another format is a usage error.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{in: bufio.NewReaderSize(r, 64<<10)}
	line, err := out.next()
	if err == io.EOF {
		err = errors.New("it is empty")
	}
	if err == nil && !Is(line) {
		err = fmt.Errorf("it does not begin with %s", begin)
	}
	if err == nil {
		err = json.Unmarshal(line, &out.Header)
	}
	if err == nil && out.Header.Schema != Schema {
		err = fmt.Errorf("it is of version %d, and this program reads %d", out.Header.Schema, Schema)
	}
	if err != nil {
		return nil, out.fail(err)
	}
	return out, nil
}

// Next returns the next resource, and io.EOF after the last. A file that ends within a line, and
// a line that is not a resource, are usage errors.
func (r *Reader) Next() (Resource, error) {
	line, err := r.next()
	if err == io.EOF {
		return Resource{}, io.EOF
	}
	var out Resource
	if err == nil {
		err = json.Unmarshal(line, &out)
	}
	if err == nil && out.TypeURL == "" {
		err = errors.New("a resource without a type")
	}
	if err != nil {
		return Resource{}, r.fail(err)
	}
	return out, nil
}

func (r *Reader) fail(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends in the middle: the file was cut short")
	}
	return errs.WithHint(errs.Usage("recorded configuration: line %d: %v", r.line, err), "record one with: meshtrial xds record --address ISTIOD:15010 --out FILE%s", Extension)
}

// next returns a line without its line end, and io.EOF at the end of the file.
func (r *Reader) next() ([]byte, error) {
	r.line++
	var whole []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(whole)+len(part) > MaxLine {
			return nil, fmt.Errorf("it is longer than %d MB", MaxLine>>20)
		}
		switch {
		case err == nil && whole == nil:
			return part, nil // valid until the next read
		case err == nil:
			return append(whole, part...), nil
		case err == bufio.ErrBufferFull:
			whole = append(whole, part...)
		case err == io.EOF && len(whole)+len(part) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
