//go:build integration || verify

package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/must"
)

// theirFilter returns an EnvoyFilter that inserts a Lua filter; match is added to its
// listener's match.
func theirFilter(name, match, script string) string {
	return `apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: theirs, namespace: istio-system}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_INBOUND
      listener: {` + match + `filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: ` + name + `
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {inline_string: "` + script + `"}
`
}

// allParts returns the levels of each part alone, and one with all of them.
func allParts() (alone []string, together string) {
	var parts []string
	for _, k := range dataplane.PartKinds() {
		word := k.Name
		if k.Number != "" {
			word += "-20"
		}
		if k.File != "" {
			word += "-good"
		}
		alone = append(alone, word)
		if k.Name != dataplane.PartJWT { // jwt-token is the same with a token
			parts = append(parts, word)
		}
	}
	return alone, strings.Join(parts, "+")
}

// testFilters enables parts: requests succeed, and the proxy's configuration and counters
// show that the part was present, and absent elsewhere. EnvoyFilters that the proxy
// rejects, or that change nothing, and Wasm modules that it cannot load, invalidate only
// their own cells. There are enough requests to fill an access log buffer, which is
// otherwise not sent within the window.
func testFilters(t *testing.T, levels ...string) {
	b := newBench(t)
	for name, text := range map[string]string{
		"good": theirFilter("their.good", "", "function envoy_on_request(h) end"),
		"bad":  theirFilter("their.bad", "", "this is no Lua"),
		"idle": theirFilter("their.idle", "portNumber: 9999, ", "function envoy_on_request(h) end"),
	} {
		b.file(t, name, text)
	}
	module, err := os.ReadFile("../../mesh/istio/wasm/header.wasm")
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(b.dir, "good.wasm"), module, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(b.dir, "bad.wasm"), append(module[:8:8], 1, 0xff), 0o600)) // a section that is cut off
	said, out := b.attempt(t, b.study(t, "filters", `
settings: {sidecars: both, rate: 200, connections: 4, concurrency: 1}
factors: {filters: [none, `+strings.Join(levels, ", ")+`, envoyfilter-bad, envoyfilter-idle, wasm-file-bad]}
envoy_filters: {good: good.yaml, bad: bad.yaml, idle: idle.yaml}
wasm: {good: good.wasm, bad: bad.wasm}
baseline: {filters: none}
blocks: {min: 1, max: 1, limit: 20m}
`))
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	complete(t, run, 1)
	refused := map[string]string{"envoyfilter-bad": "the proxy rejects it: ", "envoyfilter-idle": "it changed nothing", "wasm-file-bad": "did not load the module"}
	for _, trial := range run.Trials {
		level := trial.Cell[dataplane.FactorFilters]
		want, bad := refused[level]
		if !bad {
			verifyTrial(t, fmt.Sprintf("trial %s, %s", trial.ID, level), trial, run.Hist[trial.ID])
			continue
		}
		delete(refused, level)
		i := slices.IndexFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "server-"+level })
		if i < 0 || trial.Validity.Checks[i].OK || !strings.Contains(trial.Validity.Checks[i].Detail, want) || trial.Validity.Valid {
			t.Errorf("%s: valid %v, checks %+v", level, trial.Validity.Valid, trial.Validity.Checks)
		}
	}
	if len(refused) > 0 {
		t.Errorf("no trials of %v", refused)
	}
	if !strings.Contains(said, "script load error") {
		t.Errorf("the report does not say what Envoy said:\n%s", said)
	}
	log, err := os.ReadFile(filepath.Join(out, "log.txt"))
	if err != nil || !strings.Contains(string(log), "envoyfilter-bad is not active") {
		t.Errorf("the run's log does not say what is left out (%v):\n%s", err, log)
	}
	b.gone(t)
}
