package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// drawn returns a profile of n random samples of stacks with these shares, one
// per millisecond.
func drawn(r *rand.Rand, n int, shares map[string]float64, order []string) *Profile {
	p := New(KindCPU, UnitNanoseconds)
	p.Period = 1e6
	for i := range n {
		u := r.Float64()
		name := order[len(order)-1]
		for _, o := range order {
			if u -= shares[o]; u < 0 {
				name = o
				break
			}
		}
		var frames []Frame
		for f := range strings.SplitSeq(name, ";") {
			frames = append(frames, Frame{Name: f, Module: "/x"})
		}
		p.Add(Sample{Stack: p.stack(frames), Thread: p.Thread(Thread{}), Weight: 1e6, TimeNS: int64(i) * 1e6})
	}
	return p
}

// A difference contains vanished and new stacks with their shares. The interval
// of an unchanged one contains zero.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	before := drawn(r, 4000, map[string]float64{"main;wasm": 0.14, "main;router": 0.4},
		[]string{"main;wasm", "main;router", "main;codec"})
	after := drawn(r, 4000, map[string]float64{"main;native": 0.05, "main;router": 0.4},
		[]string{"main;native", "main;router", "main;codec"})
	d, err := Compare([]*Profile{before}, []*Profile{after})
	must.OK(t, err)
	by := map[string]DiffPath{}
	for _, one := range d.Paths {
		by[one.Path] = one
	}
	if wasm := by["main;wasm"]; !wasm.Vanished || !wasm.Real() || wasm.After != 0 ||
		math.Abs(wasm.Delta+0.14) > 0.02 || wasm.High > -0.1 {
		t.Errorf("%+v", wasm)
	}
	if native := by["main;native"]; !native.New || !native.Real() || math.Abs(native.Delta-0.05) > 0.015 {
		t.Errorf("%+v", native)
	}
	if router := by["main;router"]; router.Real() || router.Vanished || router.New {
		t.Errorf("%+v", router)
	}
	if main := by["main"]; main.Delta != 0 || main.Self != 0 {
		t.Errorf("%+v", main)
	}
	if d.Before.Blocks != 10 || !strings.Contains(d.Method, "blocks of time") || d.Paths[0].Path != "main;wasm" {
		t.Errorf("%+v", d)
	}
	v := NewView(after, "after", after.Distrust(nil))
	v.AddDiff(d, "before")
	if len(v.Against.Path) != len(d.Paths) || !strings.Contains(strings.Join(v.Names, " "), "wasm") {
		t.Errorf("%+v", v)
	}
}

// About 5% of unchanged paths appear to change.
func TestCompareCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	shares, order := map[string]float64{"main;a": 0.2}, []string{"main;a", "main;b"}
	wrong, times := 0, 300
	for range times {
		d, err := Compare([]*Profile{drawn(r, 800, shares, order)}, []*Profile{drawn(r, 800, shares, order)})
		must.OK(t, err)
		for _, one := range d.Paths {
			if one.Path == "main;a" && one.Real() {
				wrong++
			}
		}
	}
	if share := float64(wrong) / float64(times); share > 0.09 || share < 0.015 {
		t.Errorf("%.1f%% of equal profiles differ", 100*share)
	}
}

// A profile does not differ from itself, and swapping two profiles inverts their
// difference.
func TestCompareProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := made(t), made(t)
		same, err := Compare([]*Profile{p}, []*Profile{p})
		must.OK(t, err)
		for _, one := range same.Paths {
			if one.Delta != 0 || one.Real() || one.Vanished || one.New {
				t.Errorf("%+v", one)
			}
		}
		there, err := Compare([]*Profile{p}, []*Profile{q})
		must.OK(t, err)
		back, err := Compare([]*Profile{q}, []*Profile{p})
		must.OK(t, err)
		deltas := map[string]float64{}
		for _, one := range back.Paths {
			deltas[fmt.Sprint(one.Frames)] = one.Delta
		}
		for _, one := range there.Paths {
			d, ok := deltas[fmt.Sprint(one.Frames)]
			if !ok || math.Abs(one.Delta+d) > 1e-9 || one.Low > one.Delta || one.High < one.Delta {
				t.Errorf("%+v, and back %g", one, d)
			}
		}
	})
}

// The view contains every weight once, and callers precede callees.
func TestViewProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := made(t)
		v := NewView(p, "x", p.Distrust(nil))
		sum := int64(0)
		for i, w := range v.SampleWeight {
			sum += w
			if v.SamplePath[i] >= len(v.Parent) || v.SampleThread[i] >= len(v.Threads) {
				t.Errorf("sample %d is of path %d, thread %d", i, v.SamplePath[i], v.SampleThread[i])
			}
		}
		if sum != p.Total() || v.Total != sum {
			t.Errorf("%d of %d", sum, p.Total())
		}
		for i := 1; i < len(v.Parent); i++ {
			if v.Parent[i] >= i || v.Frame[i] >= len(v.FrameName) {
				t.Errorf("path %d is called by %d", i, v.Parent[i])
			}
		}
		if _, err := json.Marshal(v); err != nil {
			t.Error(err)
		}
	})
}

// pprofOf encodes stacks, innermost function first as in pprof.
func pprofOf(t testing.TB, stacks map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{
		{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	functions := map[string]*profile.Location{}
	for text, value := range stacks {
		sample := &profile.Sample{Value: []int64{1, value}}
		for name := range strings.SplitSeq(text, "<") {
			l := functions[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
				l = &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: f}}}
				p.Function, p.Location, functions[name] = append(p.Function, f), append(p.Location, l), l
			}
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	var b bytes.Buffer
	must.OK(t, p.Write(&b))
	return b.Bytes()
}

func pprofRead(t testing.TB, stacks map[string]int64) *Profile {
	t.Helper()
	p, err := ReadPprof(bytes.NewReader(pprofOf(t, stacks)))
	must.OK(t, err)
	return p
}

func TestPprof(t *testing.T) {
	p := pprofRead(t, map[string]int64{
		"leaf<middle<main.main": 30, "middle<main.main": 10, "leaf<main.main": 20, "self<self<main.main": 5})
	if p.Total() != 65 || p.Unit != UnitNanoseconds || p.Kind != KindCPU {
		t.Errorf("%d %s of %s", p.Total(), p.Unit, p.Kind)
	}
	want := "main.main;leaf 20\nmain.main;middle 10\nmain.main;middle;leaf 30\nmain.main;self;self 5\n"
	if got := text(t, p); got != want {
		t.Errorf("folded:\n%s", got)
	}
	leaf, middle := record.ProfileCost{Function: "leaf", Flat: 50, Cumulative: 50},
		record.ProfileCost{Function: "middle", Flat: 10, Cumulative: 40}
	if top := p.Top(2); !slices.Equal(top, []record.ProfileCost{leaf, middle}) {
		t.Errorf("top %+v", top)
	}
	if top := p.TopCumulative(9); !slices.Equal(top, []record.ProfileCost{
		{Function: "main.main", Cumulative: 65}, leaf, middle, {Function: "self", Flat: 5, Cumulative: 5}}) {
		t.Errorf("cumulative %+v", top)
	}
}

func TestSince(t *testing.T) {
	before := pprofRead(t, map[string]int64{"a<main": 10, "b<main": 5})
	after := pprofRead(t, map[string]int64{"a<main": 10, "b<main": 9, "c<main": 2})
	p, err := Since(before, after)
	if err != nil || text(t, p) != "main;b 4\nmain;c 2\n" || p.Total() != 6 {
		t.Errorf("%s, %v", text(t, p), err)
	}
	if _, err := Since(after, before); !errors.Is(err, ErrReset) {
		t.Errorf("a profile that lost something: %v", err)
	}
}
