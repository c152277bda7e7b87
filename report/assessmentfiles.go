package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// loggedTable shows requests in access logs, from any caller.
func loggedTable(l *assess.Logged) Table {
	if l == nil {
		return Table{}
	}
	t := Table{Title: "Requests in access logs of " + words.Plural(l.Proxies, "proxy"), Columns: []Column{{Head: "what"}}}
	var sides []*assess.LoggedSide
	for _, side := range []struct {
		head string
		of   *assess.LoggedSide
	}{{"left pods", l.Left}, {"entered pods", l.Entered}} {
		if side.of != nil {
			t.Columns, sides = append(t.Columns, Column{Head: side.head, Right: true}), append(sides, side.of)
		}
	}
	add := func(what string, value func(*assess.LoggedSide) string) {
		row, known := []Text{{S: what}}, false
		for _, side := range sides {
			text := Dash
			if s := value(side); s != "" {
				text, known = Text{S: s}, true
			}
			row = append(row, text)
		}
		if known {
			t.Rows = append(t.Rows, row)
		}
	}
	add("requests", func(s *assess.LoggedSide) string { return Count(int(s.Requests)) })
	add("TCP connections", func(s *assess.LoggedSide) string { return Count(int(s.Connections)) })
	add("protocols", func(s *assess.LoggedSide) string { return shares(s.Protocols, s.Requests+s.Connections) })
	add("response codes", func(s *assess.LoggedSide) string {
		codes := map[string]int64{}
		for code, n := range s.Codes {
			codes[codeClass(code)] += n
		}
		return shares(codes, s.Requests)
	})
	add("response flags", func(s *assess.LoggedSide) string { return shares(s.Flags, s.Requests+s.Connections) })
	add("request body, mean", func(s *assess.LoggedSide) string { return optional(s.Received, amount) })
	add("response body, mean", func(s *assess.LoggedSide) string { return optional(s.Sent, amount) })
	ms := func(v float64) string { return ScaleFor("s", v/1000).Value(v / 1000) }
	add("duration, p50", func(s *assess.LoggedSide) string { return optional(s.P50MS, ms) })
	add("duration, p90", func(s *assess.LoggedSide) string { return optional(s.P90MS, ms) })
	add("duration, p99", func(s *assess.LoggedSide) string { return optional(s.P99MS, ms) })
	if l.Left != nil && l.Entered != nil {
		t.Notes = append(t.Notes, "A request between two proxies whose logs were read is in both columns.")
	}
	return t
}

func codeClass(code int) string {
	if code == 0 {
		return "none"
	}
	return strconv.Itoa(code/100) + "xx"
}

func optional(v *float64, text func(float64) string) string {
	if v == nil {
		return ""
	}
	return text(*v)
}

// shares lists counts by their share, most first.
func shares(counts map[string]int64, total int64) string {
	const shown = 6
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var out []string
	for _, name := range names[:min(len(names), shown)] {
		out = append(out, fmt.Sprintf("%s %s%%", name, Fixed(100*float64(counts[name])/float64(max(1, total)), 1)))
	}
	if more := len(names) - shown; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// profilesTables say what istiod spends CPU and memory on.
func profilesTables(all []assess.Profiled) (out []Table) {
	const shown = 8
	for _, p := range all {
		t := Table{Title: "What istiod's " + map[string]string{profile.KindCPU: "CPU", profile.KindHeap: "heap"}[p.Kind] + " goes to, by " + p.Name,
			Columns: []Column{{Head: "what"}, {Head: "part"}, {Head: "share (95% interval)", Right: true}}}
		for _, c := range p.Centres[:min(len(p.Centres), shown)] {
			t.Rows = append(t.Rows, []Text{{S: c.Group}, {S: c.Name}, {S: fmt.Sprintf("%s%% (%s-%s)", Fixed(100*c.Share, 1), Fixed(100*c.Low, 1), Fixed(100*c.High, 1))}})
		}
		if p.TooFew {
			t.Notes = append(t.Notes, profile.Few(p.Samples).String())
		}
		out = append(out, t)
	}
	return out
}
