package app

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
)

// errBlocks is returned for a folder of Prometheus' storage.
var errBlocks = errs.Usage("this is the storage of a Prometheus, such as a snapshot, which only a Prometheus reads")

// refuseBlocks returns an error if a folder has blocks of Prometheus' storage, with the commands that assess them.
func refuseBlocks(name string) error {
	root := os.DirFS(name)
	metas, _ := fs.Glob(root, "*/meta.json") // none if it is not a folder
	var newest int64
	blocks := false
	for _, path := range metas {
		var meta struct {
			ULID    string `json:"ulid"`
			MaxTime int64  `json:"maxTime"` // Unix ms, exclusive
		}
		if data, err := fs.ReadFile(root, path); err == nil && json.Unmarshal(data, &meta) == nil && meta.ULID != "" {
			blocks, newest = true, max(newest, meta.MaxTime)
		}
	}
	if !blocks {
		return nil
	}
	return errs.WithHint(fmt.Errorf("%s: %w", name, errBlocks), `start one, and assess the time before its newest block ends:
prometheus --config.file=/dev/null --storage.tsdb.path=%s --storage.tsdb.retention.time=100y --web.listen-address=127.0.0.1:9090
meshtrial assess --prometheus-url http://127.0.0.1:9090 --prometheus-time %s --duration 10m`, shell.Quote(name), time.UnixMilli(newest).UTC().Format(time.RFC3339))
}
