package study

import (
	"strings"
	"testing"
)

// Notes name the levels that no cell has, with their positions: always those of flags, and those of
// the file unless flags or omitted variants narrow it down.
func TestUnmeasured(t *testing.T) {
	const (
		rates  = "variants: {usual: {}, few: {rate: 50}, many: {rate: 2000}}\nfactors: {sidecars: [none, both]}\n"
		own    = "variants: {slow: {rate: 50}, fast: {rate: 2000}}\n"
		bursts = "variants: {most: {rate: max}, few: {rate: 50, arrival: uniform}}\n"
		priced = "bill: {base: {telemetry: access-log-text}, parts: {a: {filters: lua}, b: {filters: jwt}}}\n"
	)
	for _, c := range []struct{ text, set, want string }{
		{own, "rate=100", "no-effect settings.rate"},
		{rates, "variant=[many] rate=500", "no-effect settings.rate"},
		{priced, "telemetry=off", "no-effect settings.telemetry"},
		{"hops: {}\n", "sidecars=none", "no-effect settings.sidecars"},
		{bursts, "arrival=uniform", "no-effect settings.arrival"},
		{"factors: {sidecars: [none, server]}\n", "mtls=strict", "no-effect settings.mtls"},
		{"settings: {sidecars: none}\n", "filters=lua", "no-effect settings.filters"},
		{rates, "rate=500", ""},
		{rates, "variant=[usual] rate=[100,500]", ""},
		{"settings: {sidecars: none}\n", "filters=none", ""},
		{"", "rate=[100,max]", ""},

		{"settings: {sidecars: ambient, filters: lua, interception: none, concurrency: 4, telemetry: \"off\"}\n", "",
			"no-effect settings.concurrency; no-effect settings.interception; no-effect settings.filters"},
		{"settings: {sidecars: client}\nfactors: {mtls: [\"off\"]}\n", "", "no-effect factors.mtls"},
		{"settings: {rate: max, arrival: uniform}\n", "", "no-effect settings.arrival"},
		{quietGraph + "settings: {sidecars: ambient, retries: 3}\n", "", "no-effect settings.retries"},
		{"control: {}\nsettings: {proxies: 0, real_pods: 1, xds: sotw}\n", "", "no-effect settings.xds"},
		{"settings: {sidecars: ambient}\nhops: {}\n", "", "no-effect settings.sidecars"},
		{"settings: {rate: 100}\nvariants: {slow: {rate: 50}, fast: {rate: 2000}}\n", "", "no-effect settings.rate"},

		{"settings: {concurrency: 4}\nfactors: {sidecars: [none, both, ambient]}\n", "", ""},
		{"settings: {concurrency: 4}\nfactors: {sidecars: [none, both, ambient]}\n", "sidecars=ambient", ""},
		{"settings: {concurrency: 4}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", "variant=plain", ""},
		{"settings: {variant: plain, concurrency: 4}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", "", ""},
		{"settings: {sidecars: ambient, concurrency: 2, mtls: strict, telemetry: \"off\", filters: none}\n", "", ""},
		{"control: {}\nsettings: {sidecar_scope: none, sidecar_hosts: \"./*,istio-system/*\"}\n", "", ""},
	} {
		var got []string
		for _, err := range plan(t, c.text, strings.Fields(c.set)...).Unmeasured() {
			got = append(got, faults(err))
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s--set %s: %s, want %s", c.text, c.set, got, c.want)
		}
	}
}

// A factor that varies without any effect is rejected, unless a run has begun with the study.
func TestVaryingWithoutEffect(t *testing.T) {
	for _, c := range []struct{ text, set, want string }{
		{"settings: {sidecars: ambient}\nfactors: {mtls: [\"off\", strict]}\nbaseline: {mtls: \"off\"}\n", "", "no-effect factors.mtls"},
		{"factors: {sidecars: [none, ambient], filters: [none, lua]}\n", "", "no-effect factors.filters"},
		{"settings: {rate: max}\nfactors: {arrival: [poisson, uniform]}\n", "", "no-effect factors.arrival"},
		{quietGraph + "settings: {retries: \"off\"}\nfactors: {retry_on: [default, 5xx]}\n", "", "no-effect factors.retry_on"},
		{quietGraph + "settings: {mesh: none}\nfactors: {sidecars: [both, ambient]}\n", "", "no-effect factors.sidecars"},
		{"control: {}\nfactors: {slice_namespaces: [1, 100]}\n", "", "no-effect factors.slice_namespaces"},
		{"factors: {sidecars: [none, both], concurrency: [2, 4]}\nexclude: [{sidecars: both}]\n", "", "no-effect factors.concurrency"},
		{"settings: {sidecars: ambient}\n", "concurrency=[2,4]", "no-effect factors.concurrency"},
	} {
		sets := strings.Fields(c.set)
		refused(t, minimal+c.text, c.want, sets...)
		for name, parse := range map[string]func([]byte, string, []string) (*Study, error){"ParseAgain": ParseAgain, "ParseStored": ParseStored} {
			if _, err := parse([]byte(minimal+c.text), "x.yaml", sets); err != nil {
				t.Errorf("%s of %s--set %s: %v", name, c.text, c.set, err)
			}
		}
	}
	for _, c := range []struct{ text, set string }{
		{"factors: {sidecars: [none, both], concurrency: [2, 4]}\n", "sidecars=none"},
		{"factors: {concurrency: [2, 4]}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", "variant=plain"},
		{"settings: {variant: plain}\nfactors: {concurrency: [2, 4]}\nvariants: {plain: {sidecars: none}, both: {sidecars: both}}\n", ""},
	} {
		if said := plan(t, c.text, strings.Fields(c.set)...).Unmeasured(); len(said) > 0 {
			t.Errorf("%s--set %s: %v", c.text, c.set, said)
		}
	}
}

// Otherwise reports the levels where a variant sets none, unless all cells have them.
func TestOtherwise(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"variants: {usual: {}, few: {rate: 50}, large: {rate: 5, payload: 1MiB}}\n", "rate 1000; payload 1KiB"},
		{"variants: {few: {rate: 50}, many: {rate: 2000}}\n", ""},
		{"variants: {usual: {}, few: {rate: 1000, payload: 2KiB}}\n", "payload 1KiB"}, // the rate is fixed
		{"variants: {usual: {}, few: {rate: 50}}\nfactors: {variant: [few]}\n", ""},
		{"variants: {usual: {}, all: {rate: max, arrival: poisson}, even: {arrival: uniform}}\n", "rate 1000; arrival poisson"},
		{"variants: {plain: {sidecars: none}, one: {generators: 2}}\n", "sidecars both; generators 1"},
	} {
		var got []string
		for _, f := range plan(t, c.text).Otherwise() {
			got = append(got, f.Factor+" "+strings.Join(f.Levels, ","))
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s%s, want %s", c.text, got, c.want)
		}
	}
}
