package observe

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/meshmark/meshmark/record"
)

// profileOf encodes stacks, the innermost function first as pprof has them.
func profileOf(t testing.TB, stacks map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
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
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestProfile(t *testing.T) {
	s, err := ParseProfile(profileOf(t, map[string]int64{"leaf<middle<main.main": 30, "middle<main.main": 10, "leaf<main.main": 20, "self<self<main.main": 5}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Total != 65 || s.Unit != "nanoseconds" {
		t.Errorf("%+v", s)
	}
	if want := "main.main;leaf 20\nmain.main;middle 10\nmain.main;middle;leaf 30\nmain.main;self;self 5\n"; folded(s) != want {
		t.Errorf("folded:\n%s", folded(s))
	}
	if top := s.Top(2); len(top) != 2 || top[0] != (record.ProfileCost{Function: "leaf", Flat: 50, Cumulative: 50}) || top[1] != (record.ProfileCost{Function: "middle", Flat: 10, Cumulative: 40}) {
		t.Errorf("top %+v", top)
	}
	if top := s.TopCumulative(9); len(top) != 4 || top[0] != (record.ProfileCost{Function: "main.main", Flat: 0, Cumulative: 65}) || top[3] != (record.ProfileCost{Function: "self", Flat: 5, Cumulative: 5}) {
		t.Errorf("cumulative %+v", top)
	}
}

// A flame graph is well-formed, says its shares, and each box lies on the one
// that called it.
func TestFlame(t *testing.T) {
	s, err := ParseProfile(profileOf(t, map[string]int64{
		"istio.io/istio/pilot/pkg/xds.(*DiscoveryServer).Push<main.main": 750, "runtime.mallocgc<main.main": 250, "tiny<main.main": 0,
		"a<b>&\"c<main.main": 1,
	}))
	if err != nil {
		t.Fatal(err)
	}
	svg := s.Flame("istiod & <friends>")
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, want := range []string{"istiod &amp; &lt;friends&gt;", "xds.(*DiscoveryServer).Push", "74.93%", "runtime.mallocgc: 0.0 ms, 24.98%", "b&gt;&amp;"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if svg != s.Flame("istiod & <friends>") {
		t.Error("it is not the same twice")
	}
	if empty := (Stacks{}).Flame("nothing"); !strings.Contains(empty, "</svg>") || strings.Contains(empty, "NaN") {
		t.Error(empty)
	}
}

func TestProfileSince(t *testing.T) {
	before := profileOf(t, map[string]int64{"a<main": 10, "b<main": 5})
	after := profileOf(t, map[string]int64{"a<main": 10, "b<main": 9, "c<main": 2})
	s, err := ProfileSince(before, after)
	if err != nil || folded(s) != "main;b 4\nmain;c 2\n" || s.Total != 6 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ProfileSince(after, before); !errors.Is(err, ErrReset) {
		t.Errorf("a profile that lost something: %v", err)
	}
	if _, err := ProfileSince(before, []byte("nonsense")); err == nil {
		t.Error("nonsense")
	}
}

// A running Go server's own profiles are read.
func TestFetchProfile(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := httptest.NewServer(mux)
	defer server.Close()
	replica := Replica{Name: "self", HTTP: server.Client(), Base: server.URL}
	for _, kind := range []string{ProfileCPU, ProfileMutex, ProfileBlock, ProfileHeap} {
		data, err := FetchProfile(t.Context(), replica, kind, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseProfile(data); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := FetchProfile(t.Context(), replica, "none", 0); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("no such profile: %v", err)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add(profileOf(f, map[string]int64{"leaf<middle<main.main": 30}))
	f.Add([]byte("--- contention:\ncycles/second=1000\n"))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseProfile(data)
		if err != nil {
			return
		}
		total := int64(0)
		for _, stack := range s.Stack {
			if len(stack.Frames) == 0 {
				t.Error("a stack of nothing")
			}
			total += stack.Value
		}
		if total != s.Total {
			t.Errorf("%d, but %d in all", total, s.Total)
		}
		if svg := s.Flame("x"); !strings.HasSuffix(svg, "</svg>\n") {
			t.Error(svg)
		}
		s.Top(10)
	})
}

// folded writes stacks as flame graph programs read them.
func folded(s Stacks) string {
	var b strings.Builder
	for _, stack := range s.Stack {
		fmt.Fprintf(&b, "%s %d\n", strings.Join(stack.Frames, ";"), stack.Value)
	}
	return b.String()
}
