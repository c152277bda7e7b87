// Package note represents what a reader should know about a figure, a trial or a run, as codes.
//
//	Kind (a code and its words) -> Note (a code and arguments), on disk too -> words
//
// A package defines its kinds in one place. Code that finds something calls [Kind.Of]; code that
// prints calls [Note.String]. [Together] merges similar notes, with the range of each figure.
package note

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A Kind defines the notes of one code.
type Kind struct {
	code   string
	pieces []piece
	slots  []slot
}

// A piece of a kind's words is always present or, if optional, omitted when an argument that it
// needs is unknown.
type piece struct {
	words    string
	optional bool
}

// A slot formats an argument with a verb of package fmt.
type slot struct {
	verb     string
	optional bool
}

var (
	kinds  = map[string]*Kind{}
	pieces = regexp.MustCompile(`\[[^\]]*\]|[^\[]+`)
	verbs  = regexp.MustCompile(`%[-+.0-9]*[a-z%]`)
	// figures are the parts in which words without a code may differ and still say the same.
	figures = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
)

// Define defines the kind of a code, which must be unique. The words contain verbs of package fmt:
// %d and others for numbers; %s and %q for the subject of a note, which must be equal in similar
// notes; %v for others' words and for figures with a unit, of which a merged note keeps the first.
// Words in [brackets] are omitted from a merged note if they differ.
func Define(code, words string) *Kind {
	if kinds[code] != nil {
		panic("note: " + code + " is defined twice")
	}
	k := &Kind{code: code}
	for _, part := range pieces.FindAllString(words, -1) {
		inner := strings.TrimSuffix(strings.TrimPrefix(part, "["), "]")
		one := piece{inner, inner != part}
		for _, verb := range verbs.FindAllString(inner, -1) {
			if verb != "%%" {
				k.slots = append(k.slots, slot{verb, one.optional})
			}
		}
		k.pieces = append(k.pieces, one)
	}
	kinds[code] = k
	return k
}

// Of returns a note of the kind. Arguments are numbers, strings, values with their own words (such
// as an error), and nil for unknown values.
func (k *Kind) Of(args ...any) Note {
	if len(args) != len(k.slots) {
		panic(fmt.Sprintf("note: %s takes %d arguments, not %d", k.code, len(k.slots), len(args)))
	}
	n := Note{Code: k.code}
	for _, arg := range args {
		n.Args = append(n.Args, plain(arg))
	}
	return n
}

// plain returns an argument in the form in which JSON returns it.
func plain(arg any) any {
	switch arg.(type) {
	case nil:
		return nil
	case fmt.Stringer, error:
		return fmt.Sprint(arg)
	}
	switch v := reflect.ValueOf(arg); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat() && !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0):
		return v.Float()
	}
	return fmt.Sprint(arg)
}

// In reports whether one of the notes is of the kind.
func (k *Kind) In(notes []Note) bool {
	return slices.ContainsFunc(notes, func(n Note) bool { return n.Code == k.code })
}

// Note is something that a reader should know.
type Note struct {
	Code string `json:"code,omitempty"` // "" for words without a code
	// Where says what the note is about: a cell, some trials.
	Where string `json:"where,omitempty"`
	// Args are numbers, strings, ranges of numbers ([]any of two), and nil for unknown values.
	Args []any `json:"args,omitempty"`
	// Text is the whole note in words, in JSON. In memory it is set only for notes without a code
	// or with an unknown one.
	Text string `json:"text"`
}

// Plain returns a note without a code.
func Plain(words string) Note { return Note{Text: words} }

// At returns the note for a place.
func (n Note) At(where string) Note {
	n.Where = where
	return n
}

// Is reports whether the note is of a kind.
func (n Note) Is(k *Kind) bool { return n.Code == k.code }

func (n Note) String() string {
	k := kinds[n.Code]
	if n.Code != "" && (k == nil || n.Text != "") {
		return n.Text // from another version; includes its place
	}
	var out strings.Builder
	if n.Where != "" {
		out.WriteString(n.Where + ": ")
	}
	if k == nil {
		return out.String() + n.Text
	}
	args := n.Args
	for _, p := range k.pieces {
		known := true
		words := verbs.ReplaceAllStringFunc(p.words, func(verb string) string {
			if verb == "%%" {
				return "%"
			}
			if len(args) == 0 {
				known = false // in a note that was constructed otherwise
				return "?"
			}
			arg := args[0]
			args, known = args[1:], known && arg != nil
			return say(verb, arg)
		})
		if known || !p.optional {
			out.WriteString(words)
		}
	}
	return out.String()
}

// say formats one argument.
func say(verb string, arg any) string {
	switch v := arg.(type) {
	case float64:
		if strings.HasSuffix(verb, "d") {
			return fmt.Sprintf(verb, int64(v))
		}
	case []any:
		low, high := say(verb, v[0]), say(verb, v[1])
		switch {
		case low == high:
			return low
		case strings.HasPrefix(low, "-"):
			return low + " to " + high
		}
		return low + "–" + high
	case string:
		if !strings.HasSuffix(verb, "q") {
			return v
		}
	}
	return fmt.Sprintf(verb, arg)
}

// Like reports whether two notes say the same except for figures, which are arguments or, in notes
// without a code, digits in the words.
func (n Note) Like(other Note) bool {
	if n.Code != other.Code || n.Where != other.Where || figures.ReplaceAllString(n.Text, "#") != figures.ReplaceAllString(other.Text, "#") ||
		len(n.Args) != len(other.Args) {
		return false
	}
	k := kinds[n.Code]
	for i := range n.Args {
		if k == nil || i >= len(k.slots) || k.slots[i].optional {
			continue
		}
		a, b := fmt.Sprint(n.Args[i]), fmt.Sprint(other.Args[i])
		switch verb := k.slots[i].verb; {
		case strings.ContainsAny(verb, "sq") && a != b,
			strings.HasSuffix(verb, "v") && figures.ReplaceAllString(a, "#") != figures.ReplaceAllString(b, "#"):
			return false
		}
	}
	return true
}

// Together merges several similar notes into one, with the range of each figure.
func Together(notes []Note) Note {
	out := notes[0]
	out.Args = slices.Clone(out.Args)
	k := kinds[out.Code]
	for _, n := range notes[1:] {
		for i := range out.Args {
			out.Args[i] = join(out.Args[i], n.Args[i], k != nil && i < len(k.slots) && k.slots[i].optional)
		}
	}
	return out
}

// join merges two notes' arguments.
func join(a, b any, optional bool) any {
	lowA, highA, okA := ends(a)
	lowB, highB, okB := ends(b)
	switch {
	case okA && okB && (lowA != lowB || highA != highB):
		return []any{min(lowA, lowB), max(highA, highB)}
	case okA && okB, fmt.Sprint(a) == fmt.Sprint(b):
		return a
	case optional:
		return nil
	}
	return a
}

// ends returns the ends of a range; a number counts as a range.
func ends(arg any) (low, high float64, ok bool) {
	switch v := arg.(type) {
	case float64:
		return v, v, true
	case []any:
		if len(v) == 2 {
			low, ok = v[0].(float64)
			var both bool
			high, both = v[1].(float64)
			return low, high, ok && both
		}
	}
	return 0, 0, false
}

// Texts returns notes in words.
func Texts(notes []Note) []string {
	var out []string
	for _, n := range notes {
		out = append(out, n.String())
	}
	return out
}

// Codes joins the codes of notes.
func Codes(notes []Note) string {
	var out []string
	for _, n := range notes {
		out = append(out, n.Code)
	}
	return strings.Join(out, " ")
}

// Words joins notes in words.
func Words(notes []Note) string { return strings.Join(Texts(notes), "; ") }

func (n Note) MarshalJSON() ([]byte, error) {
	type note Note
	if n.Code != "" {
		n.Text = n.String()
	}
	return json.Marshal(note(n))
}

// UnmarshalJSON rejects arguments that no kind accepts.
func (n *Note) UnmarshalJSON(data []byte) error {
	*n = Note{}
	type note Note
	if err := json.Unmarshal(data, (*note)(n)); err != nil {
		return err
	}
	for i, arg := range n.Args {
		_, _, figure := ends(arg)
		_, text := arg.(string)
		if !figure && !text && arg != nil {
			return fmt.Errorf("args[%d]: not a number, a text or a range of numbers", i)
		}
	}
	if k := kinds[n.Code]; k != nil && len(k.slots) == len(n.Args) {
		n.Text = ""
	}
	return nil
}
