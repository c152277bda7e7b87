// Package loadtest makes records of the generator for tests of other packages.
package loadtest

import (
	"encoding/json"

	"github.com/meshtrial/meshtrial/drive/load"
)

// Result is a generator's record of one interval of a second.
func Result(account load.Account, opened, connects int64) *load.Result {
	text, err := json.Marshal(map[string]any{
		"schema": 2, "replicas": 1, "spec": load.DefaultSpec("http://server:8080/"), "opened": opened, "end_ns": 1_000_000_000,
		"intervals": []any{map[string]any{
			"index": 0, "start_ns": 0, "duration_ns": 1_000_000_000, "connects": connects,
			"scheduled": account.Scheduled, "completed": account.Completed, "failed": account.Failed, "unfinished": account.Unfinished,
			"within": load.Within{Answered: account.Completed, Failed: account.FailedTotal()},
		}},
	})
	if err != nil {
		panic(err)
	}
	r := &load.Result{}
	if err := json.Unmarshal(text, r); err != nil {
		panic(err)
	}
	return r
}
