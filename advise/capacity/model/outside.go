package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Outside says how a mesh stands to what was measured.
type Outside struct {
	// Beyond is how many times beyond what was measured the mesh lies, 1 within;
	// BeyondWhat says in which respect, all that count.
	Beyond     float64  `json:"beyond"`
	BeyondWhat []string `json:"beyond_what,omitempty"`
	// Below says in which respects less is asked than of the smallest mesh that was
	// measured. That widens no interval.
	Below []string `json:"below,omitempty"`
}

// noticed is how far outside a mesh may lie without a word of it.
const noticed = 1.05

// Extrapolates says that a mesh lies beyond what was measured.
func (o Outside) Extrapolates() bool { return o.Beyond > noticed }

// TimesBeyond adds to a sentence how far beyond what was measured something lies, "" for
// what does not.
func TimesBeyond(times float64) string {
	if times <= noticed {
		return ""
	}
	return ", " + Figure(times, 3) + " times beyond what was measured"
}

// newKind is how many times beyond a mesh lies that has a kind of change which no run
// had: how a model errs there nothing says, and a doubling is the least that counts.
const newKind = 2

// Outside holds a mesh against what was measured: by the proxies of the replica that has
// most, all services, since push contexts and memory grow with those that no proxy sees too,
// the rate of changes, their kinds, and the CPUs, of which fewer are no easier than more.
func (m *Model) Outside(mesh Mesh) Outside {
	out := Outside{Beyond: 1}
	beyond := func(times float64, what string) {
		if out.Beyond = math.Max(out.Beyond, times); times > noticed {
			out.BeyondWhat = append(out.BeyondWhat, what)
		}
	}
	s := m.Measured
	respects := []struct {
		name   string
		v      float64
		span   [2]float64
		harder bool // where there is less of it
	}{
		{"proxies of a replica", mesh.most(), s.Proxies, false},
		{"services", float64(mesh.Services), s.Services, false},
		{"services that a sidecar sees", float64(mesh.Services) * mesh.Visible, s.Services, false},
		{"changes per second", mesh.Rate, s.Rate, false},
		{"CPUs of a replica", mesh.Cores, s.Cores, true},
	}
	if mesh.Visible == 1 {
		respects = slices.Delete(respects, 2, 3)
	}
	for _, r := range respects {
		low, high := r.span[0], r.span[1]
		v := Figure(r.v, 4)
		switch {
		case high > 0 && r.v > high:
			beyond(r.v/high, fmt.Sprintf("%s: %s is %s times beyond %s", r.name, v, Figure(r.v/high, 3), spanned(r.span)))
		case r.harder && r.v > 0 && r.v < low:
			beyond(low/r.v, fmt.Sprintf("%s: %s is %s times less than %s", r.name, v, Figure(low/r.v, 3), spanned(r.span)))
		case !r.harder && r.v < low/noticed:
			out.Below = append(out.Below, fmt.Sprintf("%s: %s is below %s", r.name, v, spanned(r.span)))
		}
	}
	if names := m.unseen(mesh); len(names) > 0 {
		beyond(newKind, fmt.Sprintf("kinds of change: no run had %s, which counts as %d times beyond", strings.Join(names, ", "), newKind))
	}
	return out
}

// unseen are the kinds of a mesh's changes that no run had, nor one that is the same to
// istiod.
func (m *Model) unseen(mesh Mesh) []string {
	var seen []ChangeKind
	for name, weight := range m.Mix {
		if k, ok := KindOf(name); ok && weight > 0 {
			seen = append(seen, k.named(""))
		}
	}
	names := slices.Sorted(maps.Keys(mesh.Mix))
	if mesh.Replay != nil {
		names = slices.Sorted(slices.Values(mesh.Replay.Kinds))
	}
	var out []string
	for _, name := range names {
		k, ok := KindOf(name)
		if used := mesh.Replay != nil || mesh.Mix[name] > 0; ok && used && len(seen) > 0 && !slices.Contains(seen, k.named("")) {
			out = append(out, name)
		}
	}
	return out
}

func spanned(s [2]float64) string {
	if s[0] == s[1] {
		return Figure(s[0], 4) + ", the only level that was measured"
	}
	return Figure(s[0], 4) + " to " + Figure(s[1], 4) + " that were measured"
}

// Figure writes a number to some significant digits, but with all of those before the
// point, for people: with no exponent, and thousands apart.
func Figure(v float64, digits int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	after := max(0, digits-1-int(math.Floor(math.Log10(math.Abs(v)))))
	whole, part, _ := strings.Cut(strconv.FormatFloat(v, 'f', after, 64), ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if part = strings.TrimRight(part, "0"); part != "" {
		part = "." + part
	}
	return sign + whole + part
}
