package scope

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxYAML is the maximum size of one object in YAML, in bytes: etcd holds no larger ones.
const maxYAML = 8 << 20

// ReadYAML calls each with the objects in a list, or in documents one after the other, as
// kubectl get -o yaml writes them. Objects of kinds that are not wanted are skipped without
// being parsed. An object that cannot be read does not keep the others: broken counts these, and
// the error is that of the first one. An error of the reader ends the reading.
func ReadYAML(r io.Reader, wanted func(kind string) bool, each func(object json.RawMessage) error) (broken int, err error) {
	y := yamlReader{wanted: wanted, each: each}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, failed := in.ReadSlice('\n')
		y.line(line, !errors.Is(failed, bufio.ErrBufferFull))
		if failed != nil && !errors.Is(failed, bufio.ErrBufferFull) {
			y.end()
			if !errors.Is(failed, io.EOF) {
				return y.broken, fmt.Errorf("after %d objects: %w", y.objects, failed)
			}
			return y.broken, y.first
		}
	}
}

// yamlReader collects the lines of one object at a time.
type yamlReader struct {
	wanted  func(kind string) bool
	each    func(object json.RawMessage) error
	objects int
	broken  int
	first   error

	text    []byte
	kind    string
	inItems bool   // of a list
	dash    []byte // the indent of the list's entries, with their dash
	long    bool   // the object is larger than maxYAML
	within  bool   // the line goes on
}

// line takes a line, or a part of one that does not end here.
func (y *yamlReader) line(line []byte, ends bool) {
	whole := !y.within
	y.within = !ends
	if !whole {
		y.add(line)
		return
	}
	switch {
	case bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")):
		y.end()
		y.inItems = false
	case bytes.HasPrefix(line, []byte("items:")):
		y.drop() // what a list says of itself
		y.inItems, y.dash = true, nil
	case !y.inItems:
		if kind, ok := bytes.CutPrefix(line, []byte("kind:")); ok {
			y.kind = scalar(kind)
		}
		y.add(line)
	case y.begins(line):
		y.end()
		y.add(append(bytes.Repeat([]byte(" "), len(y.dash)), line[len(y.dash):]...))
		y.seek(line[len(y.dash):])
	case len(line) > 0 && line[0] >= 'a' && line[0] <= 'z': // a member of the list after its items
		y.end()
		y.inItems = false
	default:
		if len(line) > len(y.dash) && len(bytes.TrimLeft(line[:len(y.dash)], " ")) == 0 {
			y.seek(line[len(y.dash):])
		}
		y.add(line)
	}
}

// begins reports whether an entry of the list begins; the first one sets the indent.
func (y *yamlReader) begins(line []byte) bool {
	if y.dash == nil {
		rest := bytes.TrimLeft(line, " ")
		if !bytes.HasPrefix(rest, []byte("- ")) {
			return false
		}
		y.dash = bytes.Clone(line[:len(line)-len(rest)+2])
	}
	return bytes.HasPrefix(line, y.dash)
}

// seek looks for the kind of an entry in one of its own lines.
func (y *yamlReader) seek(line []byte) {
	if kind, ok := bytes.CutPrefix(line, []byte("kind:")); ok {
		y.kind = scalar(kind)
	}
}

func scalar(text []byte) string { return strings.Trim(string(bytes.TrimSpace(text)), `"'`) }

func (y *yamlReader) add(line []byte) {
	if len(y.text)+len(line) > maxYAML {
		y.long, y.text = true, y.text[:0]
	}
	if !y.long {
		y.text = append(y.text, line...)
	}
}

func (y *yamlReader) drop() { y.text, y.kind, y.long = y.text[:0], "", false }

// end passes the object on.
func (y *yamlReader) end() {
	defer y.drop()
	if len(bytes.TrimSpace(y.text)) == 0 && !y.long || y.kind == "" || !y.inItems && strings.HasSuffix(y.kind, "List") || !y.wanted(y.kind) {
		return
	}
	y.objects++
	err := error(nil)
	var object []byte
	if y.long {
		err = fmt.Errorf("it is larger than %d MB", maxYAML>>20)
	} else if object, err = yaml.YAMLToJSON(y.text); err == nil {
		err = y.each(object)
	}
	if err != nil {
		y.broken++
		y.first = cmp.Or(y.first, fmt.Errorf("object %d, of kind %.100q: %w", y.objects, y.kind, err))
	}
}
