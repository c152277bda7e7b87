package app

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
)

//go:embed unitcosts
var shippedUnitCosts embed.FS

// unitCosts are a run without what sizing a mesh has no use for.
type unitCosts struct {
	Schema int            `json:"schema"`
	Header record.Header  `json:"header"`
	Study  string         `json:"study"`
	Trials []record.Trial `json:"trials"`
	// Latency is what the run measured from its histograms, which are left out.
	Latency []assess.Latency `json:"latency,omitempty"`
}

// measuredRun is a run, or unit costs of one, with what its proxies added to latency.
type measuredRun struct {
	record.Run
	latency []assess.Latency
}

const (
	unitCostsSchema = 1
	// maxUnitCosts bounds a file, unpacked, in bytes.
	maxUnitCosts = 64 << 20
)

// UnitCosts makes a file of unit costs of a run that tells what ways of carrying requests take.
func UnitCosts(ctx context.Context, dir string, warn func(string)) ([]byte, error) {
	run, err := LoadRun(ctx, dir, warn)
	if err != nil {
		return nil, err
	}
	file, err := packed(run)
	if err != nil {
		return nil, err
	}
	read, err := readUnitCosts(file)
	if err != nil {
		return nil, err
	}
	f, err := analyses.All().Analyze(read.Run)
	if err == nil && len(f.Sizings) == 0 {
		err = noSizing(dir)
	}
	return file, err
}

// packed is the file of a run's unit costs.
func packed(run record.Run) ([]byte, error) {
	thin := thinned(run)
	var err error
	if thin.Latency, err = latencyOf(run); err != nil {
		return nil, err
	}
	data, err := json.Marshal(thin)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(data, nil), nil
}

func noSizing(run string) error {
	return errs.WithHint(errs.Usage("run %s does not measure the costs of data-plane modes", run),
		"it must have several rates, sidecars or ambient, and a sizing section: `meshtrial run sidecars-or-ambient`")
}

// thinned is a run without evidence of validity and what is not CPU and memory.
func thinned(run record.Run) unitCosts {
	out := unitCosts{Schema: unitCostsSchema, Header: run.Header, Study: string(run.StudyYAML)}
	for _, t := range run.Trials {
		t.Validity.Checks = nil
		t.Counters, t.Threads, t.Probed, t.Profiles, t.Waits, t.Connections = nil, nil, nil, nil, nil, nil
		out.Trials = append(out.Trials, t)
	}
	return out
}

// readUnitCosts reads a file of unit costs as the run that it is.
func readUnitCosts(packed []byte) (measuredRun, error) {
	var c unitCosts
	data, err := unpacked(packed, maxUnitCosts)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && c.Schema != unitCostsSchema {
		err = fmt.Errorf("schema %d, but this version reads %d", c.Schema, unitCostsSchema)
	}
	if err != nil {
		return measuredRun{}, fmt.Errorf("unit costs: %w", err)
	}
	return measuredRun{record.Run{Header: c.Header, StudyYAML: []byte(c.Study), Trials: c.Trials}, c.Latency}, nil
}

// unpacked decompresses a file of at most limit bytes.
func unpacked(packed []byte, limit uint64) ([]byte, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(packed, nil)
}

// shipped are the unit costs that ship with the program.
func shipped() (runs []measuredRun, err error) {
	files, err := fs.Glob(shippedUnitCosts, "unitcosts/*.json.zst")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := shippedUnitCosts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		run, err := readUnitCosts(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// measured is a run directory, or a file of unit costs.
func measured(ctx context.Context, path string, warn func(string)) (measuredRun, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		run, err := LoadRun(ctx, path, warn)
		if err != nil {
			return measuredRun{}, err
		}
		added, err := latencyOf(run)
		return measuredRun{run, added}, err
	}
	if info.Size() > maxUnitCosts {
		return measuredRun{}, errs.Usage("%s is too large for a unit-costs file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return measuredRun{}, errs.WithCode(err, errs.CodeUsage)
	}
	run, err := readUnitCosts(data)
	if err != nil {
		err = errs.WithHint(errs.WithCode(fmt.Errorf("%s: %w", path, err), errs.CodeUsage), "--with takes a run directory, or a file written by `meshtrial assess unit-costs`")
	}
	return run, err
}
