package study

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// vainGraph is a study of resilience on the lines after the first two, to which cases add.
const vainGraph = "graph: {services: {a: {calls: [{to: b}]}, b: {replicas: 2}}}\nload: {to: a}\ntimeline: {duration: 5s}\n"

// The place of a level in a file is that of its first occurrence in a text with the two
// lines of minimal before it.
func placeIn(t *testing.T, text, entry string) string {
	t.Helper()
	at := strings.Index(text, entry)
	_, level, ok := strings.Cut(entry, ": ")
	if at < 0 || !ok {
		t.Fatalf("%q is not in %q", entry, text)
	}
	before := text[:at+len(entry)-len(level)]
	line := strings.Count(before, "\n")
	return fmt.Sprintf("x.yaml:%d:%d: ", 3+line, len(before)-strings.LastIndex(before, "\n"))
}

// A level that the file itself asks for and that means nothing in any cell is named, in one
// line, at its place.
func TestVainLevels(t *testing.T) {
	for _, c := range []struct {
		text   string
		levels []string // as they stand in the text, in the order of factors
		want   []string
	}{
		{"settings: {sidecars: ambient, filters: lua, interception: none, concurrency: 4, telemetry: \"off\"}\n",
			[]string{"concurrency: 4", "interception: none", "filters: lua"},
			[]string{"no cell has concurrency 4: it means nothing in any cell", "no cell has interception none: it means nothing in any cell", "no cell has filters lua: it means nothing in any cell"}},
		{"settings: {sidecars: client}\nfactors: {mtls: [\"off\"]}\n", []string{"mtls: ["}, []string{"no cell has mtls off: it means nothing in any cell"}},
		{"settings: {rate: max, arrival: uniform}\n", []string{"arrival: uniform"}, []string{"no cell has arrival uniform: it means nothing in any cell"}},
		{vainGraph + "settings: {sidecars: ambient, retries: 3, outlier_detection: errors=5}\n", []string{"retries: 3", "outlier_detection: errors=5"},
			[]string{"no cell has retries 3: it means nothing in any cell", "no cell has outlier_detection errors=5: it means nothing in any cell"}},
		{vainGraph + "settings: {retries: \"off\", retry_on: 5xx}\n", []string{"retry_on: 5xx"}, []string{"no cell has retry_on 5xx: it means nothing in any cell"}},
		{"control: {}\nsettings: {proxies: 0, real_pods: 1, xds: sotw, sidecar_hosts: \"./*\"}\n", []string{"xds: sotw", "sidecar_hosts: \"./*\""},
			[]string{"no cell has xds sotw: it means nothing in any cell", "no cell has sidecar_hosts ./*: it means nothing in any cell"}},

		// Sections and variants that decide on it.
		{"settings: {sidecars: ambient}\nhops: {}\n", []string{"sidecars: ambient"}, []string{"sidecars ambient changes nothing, as hops set sidecars in every cell"}},
		{"settings: {rate: 100}\nvariants: {slow: {rate: 50}, fast: {rate: 2000}}\n", []string{"rate: 100"}, []string{"rate 100 changes nothing, as every variant sets rate itself"}},
		{"settings: {concurrency: 4}\nvariants: {plain: {sidecars: none}, one: {sidecars: both, concurrency: 1}}\n", []string{"concurrency: 4"},
			[]string{"no cell of a variant that does not set it has concurrency 4: it means nothing in any of them"}},
		{"variants: {plain: {sidecars: none, concurrency: 4}, one: {concurrency: 1}}\n", []string{"concurrency: 4"},
			[]string{"no cell of variant plain has concurrency 4: it means nothing in any of them"}},
	} {
		said := plan(t, c.text).Unmeasured()
		var got, want []string
		for _, err := range said {
			got = append(got, err.Error())
			if !strings.HasPrefix(errs.Hint(err), "leave it out") {
				t.Errorf("%s%v: hint %q", c.text, err, errs.Hint(err))
			}
		}
		for i, level := range c.levels {
			want = append(want, placeIn(t, c.text, level)+c.want[i])
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%ssays\n%s\nwant\n%s", c.text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// What means something in some cell, or would in one of a variant that is left out, asks
// for something, and so does a file that flags narrow down. Levels that cells have anyway,
// as those of a resolved file, ask for nothing.
func TestNotVain(t *testing.T) {
	for _, c := range []struct{ text, sets string }{
		{"settings: {concurrency: 4}\nfactors: {sidecars: [none, both, ambient]}\n", ""},
		{"settings: {concurrency: 4}\nfactors: {sidecars: [none, both, ambient]}\n", "sidecars=ambient"},
		{"settings: {concurrency: 4}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", "variant=plain"},
		{"settings: {variant: plain, concurrency: 4}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", ""},
		{"settings: {rate: 100}\nvariants: {few: {rate: 50}, usual: {}}\n", "variant=few"},
		{"variants: {plain: {sidecars: none}, four: {sidecars: both, concurrency: 4}}\n", "variant=[plain]"},
		{"settings: {sidecars: ambient, concurrency: 4}\n", "sidecars=both"},
		{"settings: {sidecars: ambient, concurrency: 2, mtls: strict, telemetry: \"off\", filters: none}\n", ""},
		{"control: {}\nsettings: {sidecar_scope: none, sidecar_hosts: \"./*,istio-system/*\"}\n", ""}, // as older releases wrote it
		{"control: {}\nfactors: {sidecar_scope: [installed, mesh]}\nsettings: {sidecar_hosts: \"./*\"}\n", "sidecar_scope=installed"},
		{"factors: {sidecars: [none, both], concurrency: [2, 4]}\n", "sidecars=none"},
		{"factors: {concurrency: [2, 4]}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", "variant=plain"},
		{"settings: {sidecars: ambient}\nfactors: {mtls: [\"off\", strict]}\n", "sidecars=[ambient,both]"},
		{vainGraph + "variants: {drain: {}, no-drain: {drain: false, retries: \"off\"}}\n", "mesh=none"},
		{vainGraph + "factors: {mesh: [none, istio], retries: [\"off\", 3]}\nbaseline: {mesh: none}\n", "mesh=[none]"},
	} {
		if said := plan(t, c.text, strings.Fields(c.sets)...).Unmeasured(); len(said) > 0 {
			t.Errorf("%s--set %s: %v", c.text, c.sets, said)
		}
	}
}

// A factor that varies and means nothing in any cell is refused, with its place, with what
// it means nothing, and a flag with which it means something. A run of such a study, which
// an earlier release made, is gone on with and told of, without a word.
func TestVainFactors(t *testing.T) {
	for _, c := range []struct{ text, set, at, want, flag string }{
		{"settings: {sidecars: ambient}\nfactors: {mtls: [\"off\", strict]}\nbaseline: {mtls: \"off\"}\n", "", "mtls: [",
			"no cell has mtls off or strict: it means nothing with sidecars: ambient", "sidecars=[ambient,both]"},
		{"settings: {sidecars: ambient}\nfactors: {envoy: [default, 1.39.0]}\n", "", "envoy: [",
			"no cell has envoy default or 1.39.0: it means nothing with sidecars: ambient", "sidecars=[ambient,both]"},
		{"factors: {sidecars: [none, ambient], filters: [none, lua]}\n", "", "filters: [",
			"no cell has filters none or lua: it means nothing with sidecars: none or ambient", "sidecars=[none,ambient,both]"},
		{"settings: {rate: max}\nfactors: {arrival: [poisson, uniform]}\n", "", "arrival: [",
			"no cell has arrival poisson or uniform: it means nothing with rate: max", "rate=[max,1000]"},
		{vainGraph + "settings: {retries: \"off\"}\nfactors: {retry_on: [default, 5xx]}\n", "", "retry_on: [",
			"no cell has retry_on default or 5xx: it means nothing with retries: off", "retries=[off,default]"},
		{vainGraph + "settings: {sidecars: waypoint}\nfactors: {retries: [\"off\", 3]}\n", "", "retries: [",
			"no cell has retries off or 3: it means nothing with sidecars: waypoint", "sidecars=[waypoint,both]"},
		{vainGraph + "settings: {mesh: none}\nfactors: {sidecars: [both, ambient]}\n", "", "sidecars: [",
			"no cell has sidecars both or ambient: it means nothing with mesh: none", "mesh=[none,istio]"},
		{"control: {}\nfactors: {slice_namespaces: [1, 100]}\n", "", "slice_namespaces: [",
			"no cell has slice_namespaces 1 or 100: it means nothing with endpoint_slices: 0", "endpoint_slices=[0,30000]"},
		{"control: {}\nfactors: {sidecar_hosts: [\"./*\", \"*/*\"]}\n", "", "sidecar_hosts: [",
			"no cell has sidecar_hosts ./* or */*: it means nothing with sidecar_scope: installed", "sidecar_scope=[installed,mesh]"},
		{"mesh: none\nsettings: {sidecars: none}\nfactors: {concurrency: [2, 4]}\n", "", "concurrency: [",
			"no cell has concurrency 2 or 4: it means nothing in any cell", ""},
		{"variants: {ambient: {sidecars: ambient}, waypoint: {sidecars: waypoint}}\nfactors: {concurrency: [2, 4]}\n", "", "concurrency: [",
			"no cell has concurrency 2 or 4: it means nothing with sidecars: ambient or waypoint", ""},
		// One cell is enough.
		{vainGraph + "settings: {retries: \"off\"}\nfactors: {mesh: [none, istio], retry_on: [default, 5xx]}\nbaseline: {mesh: none}\n", "", "retry_on: [",
			"no cell has retry_on default or 5xx: it means nothing with retries: off", "retries=[off,default]"},
		// Those that there would be are left out, whatever a flag says.
		{"factors: {sidecars: [none, both], concurrency: [2, 4]}\nexclude: [{sidecars: both}]\n", "", "concurrency: [",
			"no cell has concurrency 2 or 4: it means nothing with sidecars: none", ""},
		// What flags ask for as well, and what they take from a file that asks it of nobody.
		{"settings: {sidecars: ambient}\n", "concurrency=[2,4]", "", "no cell has concurrency 2 or 4: it means nothing with sidecars: ambient", "sidecars=[ambient,both]"},
		{"factors: {sidecars: [none, both]}\nvariants: {a: {concurrency: 1}, b: {}}\n", "sidecars=none variant=b concurrency=[2,4]", "",
			"no cell has concurrency 2 or 4: it means nothing with sidecars: none", "sidecars=[none,both]"},
		{"settings: {sidecars: ambient}\nfactors: {mtls: [\"off\", strict]}\n", "sidecars=none", "mtls: [",
			"no cell has mtls off or strict: it means nothing with sidecars: none", "sidecars=[none,both]"},
	} {
		text, sets := minimal+c.text, strings.Fields(c.set)
		_, err := Parse([]byte(text), "x.yaml", sets)
		if err == nil {
			t.Errorf("%s--set %s is taken", c.text, c.set)
			continue
		}
		at := "--set "
		if c.at != "" {
			at = placeIn(t, c.text, c.at)
			at = at[:strings.LastIndex(at, ":")]
		}
		if errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(err.Error(), at) || !strings.Contains(err.Error(), ": "+c.want) {
			t.Errorf("%s--set %s: %v; want it at %s: %s", c.text, c.set, err, at, c.want)
		}
		hint := errs.Hint(err)
		if flag, rest, ok := strings.Cut(strings.TrimPrefix(hint, "leave it out, or --set "), "; "); c.flag != "" {
			if !ok || flag != c.flag || !strings.Contains(rest, " is: ") {
				t.Errorf("%s--set %s: hint %q, want --set %s", c.text, c.set, hint, c.flag)
			} else if _, err := Parse([]byte(text), "x.yaml", append(sets, flag)); err != nil {
				t.Errorf("%s--set %s: %v", c.text, flag, err)
			}
		} else if strings.Contains(hint, "--set") {
			t.Errorf("%s--set %s: hint %q names a flag that is of no use", c.text, c.set, hint)
		}
		if asked := strings.Contains(hint, "do not exclude the cells in which it does; "); asked != strings.Contains(c.text, "exclude: ") {
			t.Errorf("%s--set %s: hint %q", c.text, c.set, hint)
		}
		for name, parse := range map[string]func([]byte, string, []string) (*Study, error){"gone on with": ParseAgain, "told of": ParseStored} {
			s, err := parse([]byte(text), "x.yaml", sets)
			if err != nil {
				t.Errorf("%s--set %s is not %s: %v", c.text, c.set, name, err)
				continue
			}
			p, err := NewPlan(s, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, note := range p.Unmeasured() {
				if !strings.HasPrefix(note.Error(), "--set ") {
					t.Errorf("%s%s: %v", c.text, name, note)
				}
			}
		}
	}
}
