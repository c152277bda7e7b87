package fit

import (
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/advise/capacity/world"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// truth returns the parameters of a synthetic istiod.
func truth() model.Values {
	v := model.Assumed()
	for p, x := range map[model.Parameter]float64{
		model.Watch: 0.004, model.ChangeCPU: 0.006, model.Context: 0.001, model.ContextPerService: 8e-6, model.Parallel: 1.5,
		model.IdleCores: 0.005, model.IdleCoresPerProxy: 5e-5, model.Beside: 1e-4, model.BesidePerByte: 2e-9, model.Apply: 0.01, model.ApplyPerByte: 2e-8,
		model.Memory: 70e6, model.MemoryPerProxy: 300e3, model.MemoryPerService: 40e3, model.MemoryPerPair: 600, model.MemoryPerRate: 0,
		model.CPUOf(push.CDS): 0.0002, model.CDSCPUPerChange: 0.0003, model.CPUOf(push.EDS): 0.0001, model.EDSCPUPerChange: 0.0002, model.EDSCPUWhole: 1.2e-5,
		model.CPUOf(push.LDS): 0.0008, model.CPUOf(push.RDS): 0.0006, model.RDSCPUAnew: 8e-6,
		model.CPUPerServiceOf(push.CDS): 1e-6, model.CPUPerServiceOf(push.RDS): 3e-6,
		model.BytesOf(push.CDS): 4000, model.CDSBytesPerChange: 1800, model.BytesOf(push.EDS): 50, model.EDSBytesPerChange: 400, model.EDSBytesWhole: 380, model.BytesOf(push.LDS): 16000, model.BytesOf(push.RDS): 3000,
		model.BytesPerServiceOf(push.RDS): 520,
	} {
		v[p] = x
	}
	return v
}

// cells returns the cells of a study with these variants.
func cells(t testing.TB, variants string) []record.Cell {
	t.Helper()
	return studytest.Plan(t, "name: synthetic\nquestion: What?\ncontrol: {changes: 30}\nsettings: {endpoints: 2, namespaces: 4, change: mixed, debounce_after: 100ms, istiod_replicas: 1, istiod_cpu: none, push_throttle: default}\n"+
		"variants:\n"+variants+"baseline: {variant: a}\nblocks: {min: 2, max: 3, limit: 1h}\n").Cells
}

const sizes = "  a: {proxies: 50, services: 50, change_rate: 2}\n  b: {proxies: 300, services: 50, change_rate: 2}\n  c: {proxies: 50, services: 300, change_rate: 2}\n" +
	"  d: {proxies: 300, services: 300, change_rate: 1}\n  e: {proxies: 300, services: 300, change_rate: 6}\n  f: {proxies: 300, services: 300, change_rate: 6, change: virtualservice}\n"

// madeUp returns a run of trials that an istiod with these parameters would
// produce, with noise: each figure has an independent error factor.
func madeUp(t testing.TB, v model.Values, cells []record.Cell, trials int, noise float64, seed uint64) record.Run {
	t.Helper()
	run, err := (&world.World{Values: v}).Run(cells, world.Trials{Blocks: trials, Noise: noise, Seed: seed})
	must.OK(t, err)
	return run
}
