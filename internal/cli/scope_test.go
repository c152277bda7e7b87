package cli

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshmark/meshmark/scope"
)

// TestScopeScripts runs on dumps recorded from a lab's proxies.
func TestScopeScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/scope",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"sidecar", "gateway", "clusters"} {
				data, err := os.ReadFile("../../scope/testdata/" + name + ".json.gz")
				if err != nil {
					return err
				}
				if err := os.WriteFile(e.Cd+"/"+name+".json.gz", data, 0o644); err != nil {
					return err
				}
			}
			e.Setenv("XDG_STATE_HOME", e.Cd+"/state") // no lab runs there
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"sums": checkScopeSums},
	})
}

// checkScopeSums checks that owners and types of the JSON or CSV that the
// last command printed add up to the total.
func checkScopeSums(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stdout")
	if strings.HasPrefix(text, "proxy,") {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		ts.Check(err)
		kinds := map[string]int{}
		for _, row := range rows {
			kinds[row[1]]++
		}
		if kinds["type"] < 5 || kinds["owner"] < 5 || kinds["resource"] < 5 {
			ts.Fatalf("rows by kind: %v", kinds)
		}
		return
	}
	var r scope.Report
	ts.Check(json.Unmarshal([]byte(text), &r))
	owners, types := int64(0), int64(0)
	for _, o := range r.Owners {
		owners += o.DumpBytes
	}
	if r.OtherOwners != nil {
		owners += r.OtherOwners.DumpBytes
	}
	for _, x := range r.Types {
		types += x.DumpBytes
	}
	if r.DumpBytes == 0 || owners != r.DumpBytes || types != r.DumpBytes {
		ts.Fatalf("%d bytes, by owner %d, by type %d", r.DumpBytes, owners, types)
	}
}
