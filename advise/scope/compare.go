package scope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/internal/confile"
)

// Difference is a place in resources of a type at which two configurations of the same proxy
// differ: both have a value there, or only the first, or only the second.
type Difference struct {
	Type string // as [TypeCluster]
	// Path is the field; "" if one configuration lacks the resource. Elements of lists are named
	// by their filter or type, otherwise [].
	Path string
	// First and Second are the values in JSON, of the first resource; "" for none.
	First, Second string
	Resources     int    // that differ there
	Example       string // name of one of them
}

// DifferencePlace identifies a [Difference] among those of several proxies.
type DifferencePlace struct {
	Type, Path    string
	First, Second bool // whether it has a value there
}

// Place returns where, and in which of the configurations, the values are.
func (d Difference) Place() DifferencePlace {
	return DifferencePlace{d.Type, d.Path, d.First != "", d.Second != ""}
}

// Compared is the result of a comparison.
type Compared struct {
	Resources   int // in either configuration
	Differing   int // resources that differ
	Differences []Difference
}

// Compare compares two recordings of what istiod sends a proxy (package confile), resource by
// resource. Versions of resources are ignored, as is the order of routes' domains.
func Compare(first, second io.Reader) (Compared, error) {
	var sides [2]map[resourceKey][]byte
	for i, in := range []io.Reader{first, second} {
		var err error
		if sides[i], err = readResources(in); err != nil {
			return Compared{}, err
		}
	}
	keys := union(sides[0], sides[1])
	slices.SortFunc(keys, func(a, b resourceKey) int { return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.name, b.name)) })
	out := Compared{Resources: len(keys)}
	index := map[DifferencePlace]int{}
	for _, key := range keys {
		a, has := sides[0][key]
		b, other := sides[1][key]
		var found []change
		switch {
		case !other:
			found = []change{{first: "present"}}
		case !has:
			found = []change{{second: "present"}}
		case !bytes.Equal(a, b):
			var err error
			if found, err = compareResource(key, a, b); err != nil {
				return Compared{}, err
			}
		}
		if len(found) > 0 {
			out.Differing++
		}
		counted := map[DifferencePlace]bool{}
		for _, c := range found {
			d := Difference{Type: key.short(), Path: c.path, First: c.first, Second: c.second, Example: key.name}
			at := d.Place()
			if counted[at] {
				continue
			}
			counted[at] = true
			i, known := index[at]
			if !known {
				i = len(out.Differences)
				index[at] = i
				out.Differences = append(out.Differences, d)
			}
			out.Differences[i].Resources++
		}
	}
	slices.SortStableFunc(out.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Resources, a.Resources), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

// resourceKey identifies a resource by the last part of its type URL, and its name.
type resourceKey struct{ typ, name string }

func (k resourceKey) short() string { return cmp.Or(wireTypes[k.typ].typ, TypeOther) }

func readResources(r io.Reader) (map[resourceKey][]byte, error) {
	in, err := confile.NewReader(r)
	if err != nil {
		return nil, err
	}
	out := map[resourceKey][]byte{}
	for {
		one, err := in.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out[resourceKey{one.TypeURL[strings.LastIndexByte(one.TypeURL, '/')+1:], one.Name}] = one.Body
	}
}

// change is one difference within a resource.
type change struct{ path, first, second string }

// undecoded is the path of differences in what this program cannot decode.
const undecoded = "(not decoded)"

func compareResource(key resourceKey, a, b []byte) ([]change, error) {
	w := wireTypes[key.typ]
	if w.make == nil && !nested(a, maxNested) && !nested(b, maxNested) && bytes.Equal(sortFields(a), sortFields(b)) {
		return nil, nil
	}
	var values [2]any
	var messages [2]proto.Message
	var known lenient
	for i, body := range [][]byte{a, b} {
		if w.make == nil || nested(body, maxNested) {
			return []change{{path: undecoded, first: size(a), second: size(b)}}, nil
		}
		m := w.make()
		if err := proto.Unmarshal(body, m); err != nil {
			return nil, fmt.Errorf("resource %q of type %s, %d bytes: %w", key.name, key.typ, len(body), err)
		}
		messages[i] = m
		text, err := protojson.MarshalOptions{UseProtoNames: true, Resolver: &known, AllowPartial: true}.Marshal(m)
		if err != nil {
			return []change{{path: undecoded, first: size(a), second: size(b)}}, nil
		}
		if err := json.Unmarshal(text, &values[i]); err != nil {
			return nil, fmt.Errorf("resource %q of type %s: %w", key.name, key.typ, err)
		}
	}
	var out []change
	compareValues("", values[0], values[1], func(c change) { out = append(out, c) })
	if len(out) == 0 && known.missed && !proto.Equal(messages[0], messages[1]) {
		out = append(out, change{path: undecoded, first: size(a), second: size(b)})
	}
	return out, nil
}

// sortFields sorts the fields of a message and of those in it by number. Versions of istiod encode
// them in different orders, which means the same. A text that looks like a message is sorted too.
func sortFields(body []byte) []byte {
	type field struct {
		number  protowire.Number
		encoded []byte
	}
	var all []field
	for rest := body; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return body
		}
		one := rest[:n]
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			inner, _ := protowire.ConsumeBytes(rest[tag:])
			one = protowire.AppendBytes(slices.Clone(rest[:tag]), sortFields(inner))
		}
		all, rest = append(all, field{number, one}), rest[n:]
	}
	slices.SortStableFunc(all, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	var out []byte
	for _, f := range all {
		out = append(out, f.encoded...)
	}
	return out
}

func size(b []byte) string { return strconv.Itoa(len(b)) + " bytes" }

// sets are the fields whose elements have no order.
var sets = map[string]bool{"domains": true}

// compareValues reports where two JSON values differ.
func compareValues(path string, a, b any, found func(change)) {
	switch first := a.(type) {
	case map[string]any:
		second, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(slices.Values(union(first, second))) {
			compareValues(strings.TrimPrefix(path+"."+name, "."), first[name], second[name], found)
		}
		return
	case []any:
		second, ok := b.([]any)
		if !ok {
			break
		}
		compareLists(path, first, second, found)
		return
	}
	if x, y := jsonText(a), jsonText(b); x != y {
		found(change{path, x, y})
	}
}

// compareLists pairs the elements of two lists by name if all have different ones, otherwise by
// place.
func compareLists(path string, a, b []any, found func(change)) {
	last := path[strings.LastIndexByte(path, '.')+1:]
	first, ok := byName(a)
	second, named := byName(b)
	if !ok || !named {
		if len(a) != len(b) || sets[last] { // one that is missing must not shift the others
			a, b = without(a, b), without(b, a)
		}
		if sets[last] {
			a, b = sorted(a), sorted(b)
		}
		for i := range max(len(a), len(b)) {
			var x, y any
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			compareValues(path+"[]", x, y, found)
		}
		return
	}
	names := union(first, second)
	slices.Sort(names)
	for _, name := range names {
		compareValues(path+"["+shownName(name)+"]", first[name], second[name], found)
	}
	if len(first) == len(names) && len(second) == len(names) && !slices.Equal(namesOf(a), namesOf(b)) {
		found(change{path + " (order)", jsonText(namesOf(a)), jsonText(namesOf(b))})
	}
}

// union returns the keys that either map has.
func union[K comparable, V any](a, b map[K]V) []K {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Collect(maps.Keys(all))
}

// without returns the elements of a list that another list lacks.
func without(list, other []any) []any {
	have := map[string]int{}
	for _, one := range other {
		have[jsonText(one)]++
	}
	var out []any
	for _, one := range list {
		if text := jsonText(one); have[text] > 0 {
			have[text]--
		} else {
			out = append(out, one)
		}
	}
	return out
}

func sorted(list []any) []any {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b any) int { return cmp.Compare(jsonText(a), jsonText(b)) })
	return out
}

// byName returns the elements of a list by their names, if all have different ones.
func byName(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, one := range list {
		m, ok := one.(map[string]any)
		name, has := m["name"].(string)
		if _, twice := out[name]; !ok || !has || twice {
			return nil, false
		}
		out[name] = one
	}
	return out, true
}

func namesOf(list []any) []string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i], _ = one.(map[string]any)["name"].(string)
	}
	return out
}

// shownName keeps the names of filters and extensions, which are few. Names of routes and hosts
// would keep the same difference of many resources apart.
func shownName(name string) string {
	if strings.HasPrefix(name, "envoy.") || strings.HasPrefix(name, "istio") {
		return name
	}
	return ""
}

// jsonText formats a value; "" for none.
func jsonText(v any) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // it was decoded from JSON
	}
	return string(text)
}
