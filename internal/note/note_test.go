package note

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

var (
	used    = Define("test_used", "used %.0f%% of it")
	lost    = Define("test_lost", "%s lost %d (%d of %d)")
	margin  = Define("test_margin", "beyond the margin[ of %v]")
	failed  = Define("test_failed", "could not be read: %v")
	nothing = Define("test_nothing", "nothing")
)

func TestWords(t *testing.T) {
	for want, n := range map[string]Note{
		"used 103% of it":                        used.Of(103),
		"b lost 3 (38 of 40)":                    lost.Of("b", 3, int64(38), uint8(40)),
		"beyond the margin of 21 ms":             margin.Of("21 ms"),
		"beyond the margin":                      margin.Of(nil),
		"could not be read: EOF":                 failed.Of(errors.New("EOF")),
		"could not be read: 20ms":                failed.Of(20 * time.Millisecond),
		"used NaN% of it":                        used.Of(math.NaN()),
		"at 4 proxies: nothing":                  nothing.Of().At("at 4 proxies"),
		"at 4 proxies: 100% <b>":                 Plain("100% <b>").At("at 4 proxies"),
		"of a later program":                     {Code: "test_later", Args: []any{1.0}, Text: "of a later program"},
		"? lost ? (? of ?)":                      {Code: "test_lost"},
		"-7 of it to %":                          Plain("-7 of it to %"),
		"could not be read: a b lost 1 (1 of 1)": failed.Of(lost.Of("a b", 1, 1, 1)),
	} {
		if got := n.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		data, err := json.Marshal(n)
		must.OK(t, err)
		var back Note
		if err := json.Unmarshal(data, &back); err != nil || back.String() != want || back.Text == n.Text && !reflect.DeepEqual(back, n) {
			t.Errorf("%s came back as %+v, %v", data, back, err)
		}
	}
}

func TestTogether(t *testing.T) {
	for want, notes := range map[string][]Note{
		"used 103% of it":            {used.Of(103), used.Of(103.2)},
		"used 45–435% of it":         {used.Of(103), used.Of(435), used.Of(45)},
		"used -7 to -2% of it":       {used.Of(-7), used.Of(-2)},
		"used -7 to 3% of it":        {used.Of(-7), used.Of(3)},
		"used 2–9% of it":            {Together([]Note{used.Of(2), used.Of(5)}), used.Of(9)},
		"b lost 3–4 (38–39 of 40)":   {lost.Of("b", 3, 38, 40), lost.Of("b", 4, 39, 40)},
		"beyond the margin":          {margin.Of("21 ms"), margin.Of("2 MB")},
		"beyond the margin of 21 ms": {margin.Of("21 ms"), margin.Of("21 ms")},
		"could not be read: after 3": {failed.Of("after 3"), failed.Of("after 4.5")},
		"trial x: used 3–4% of it":   {used.Of(3).At("trial x"), used.Of(4).At("trial x")},
	} {
		for _, n := range notes {
			if !n.Like(notes[0]) {
				t.Errorf("%q is unlike %q", n, notes[0])
			}
		}
		got := Together(notes)
		data, err := json.Marshal(got)
		var back Note
		if got.String() != want || err != nil || json.Unmarshal(data, &back) != nil || back.String() != want {
			t.Errorf("%q, on disk %s, want %q", got, data, want)
		}
	}
	for _, pair := range [][2]Note{{used.Of(1), nothing.Of()}, {lost.Of("a", 1, 1, 1), lost.Of("b", 1, 1, 1)}, {used.Of(1), used.Of(1).At("x")}, {Plain("a"), Plain("b")}, {failed.Of("EOF"), failed.Of("reset")}} {
		if pair[0].Like(pair[1]) {
			t.Errorf("%q is like %q", pair[0], pair[1])
		}
	}
}

func FuzzNote(f *testing.F) {
	for _, seed := range []string{`"words"`, `{"code":"test_lost","args":["a",[1,2],null,4]}`, `{"code":"test_used","args":[[1]]}`, `{"code":"test_used","args":[{}]}`, `{"code":"test_margin"}`, `{"where":"x","text":"y"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var n, back Note
		if json.Unmarshal([]byte(data), &n) != nil {
			return
		}
		if both := Together([]Note{n, n}).String(); both != n.String() || !n.Like(n) {
			t.Errorf("%q twice is %q", n, both)
		}
		again, err := json.Marshal(n)
		if err != nil || json.Unmarshal(again, &back) != nil || back.String() != n.String() {
			t.Errorf("%s came back as %q, %v", again, back, err)
		}
	})
}
