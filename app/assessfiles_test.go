package app

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/testing/must"
)

// contents opens files by name, in memory or on disk, unpacked.
func contents(files map[string]string) OpenFile {
	return func(_ context.Context, name string, f func(io.Reader) error) error {
		text, there := files[name]
		if !there {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(data)
		}
		in := bufio.NewReader(strings.NewReader(text))
		if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
			z, err := gzip.NewReader(in)
			if err != nil {
				return err
			}
			return f(z)
		}
		return f(in)
	}
}

func archiveOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		must.OK(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600, Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return out.String()
}

var fakePodList = strings.Replace(fakePods, `{"metadata":{},`, `{"kind":"PodList",`, 1)

const recordedPages = "../observe/signals/testdata/istiod-"

// Files are read by what they hold; what is broken or strange does not keep the others.
func TestAssessFiles(t *testing.T) {
	before, err := os.ReadFile(recordedPages + "before.txt")
	must.OK(t, err)
	files := map[string]string{
		"one":   fakeObjects["services"],
		"two":   fakePodList,
		"three": archiveOf(t, map[string]string{"../../etc/cluster/metrics": string(before), "log": "2026-11-30 info", "cut.json": `{"configs":[{"@type`}),
		"four":  "a log\n", "five": `{"items":[{"kind":"Service","spec":7}]}`, "six": "",
	}
	files["one"] = strings.Replace(files["one"], `{"items"`, `{"kind":"ServiceList","items"`, 1)
	o := Assessment{Apart: time.Minute}
	names := []string{"one", "two", "three", "four", "five", "six", recordedPages + "after.txt", "../advise/scope/testdata/sidecar.json.gz", "nowhere"}
	a, _, err := o.FromFiles(t.Context(), names, contents(files))
	must.OK(t, err)
	if a.Mesh.Count(assess.Sidecar) != 1 || a.Mesh.Count(assess.Istiod) != 1 || a.Mesh.Enrolled != 1 || a.Mesh.Objects["Service"] != 3 {
		t.Errorf("%+v", a.Mesh)
	}
	if a.Configuration == nil || len(a.Configuration.Held.Proxies) != 1 || a.Configuration.Held.DumpBytes == 0 {
		t.Errorf("configuration: %+v", a.Configuration)
	}
	if a.WindowS != 60 || a.Limits == nil || !strings.HasPrefix(a.Mesh.Istiod, "1.31") {
		t.Errorf("over %g s, istiod %q", a.WindowS, a.Mesh.Istiod)
	}
	if v, ok := a.Signals.Find("xds_pushes"); !ok || v.Value == nil || !(*v.Value > 0) {
		t.Errorf("pushes: %+v", v)
	}
	not := map[assess.Gap]int{assess.FileNotRead: 0, assess.FileUnknown: 0}
	for _, u := range a.Unknown {
		for g := range not {
			if g.In([]assess.Unknown{u}) {
				not[g]++
			}
		}
	}
	if not[assess.FileNotRead] != 3 || not[assess.FileUnknown] != 1 || assess.OnePage.In(a.Unknown) || !assess.NoCounters.In(a.Unknown) || !assess.UnknownUse.In(a.Unknown) {
		t.Errorf("%v: %v", not, a.Unknown)
	}
}

// Of one page, or of pages whose distance nobody tells, rates are unknown.
func TestAssessOnePage(t *testing.T) {
	for name, files := range map[string][]string{"one": {recordedPages + "before.txt"}, "two": {recordedPages + "before.txt", recordedPages + "after.txt"}} {
		a, _, err := Assessment{}.FromFiles(t.Context(), files, contents(nil))
		must.OK(t, err)
		if !assess.OnePage.In(a.Unknown) || a.Signals == nil {
			t.Errorf("%s: %v", name, a.Unknown)
		}
		if v, _ := a.Signals.Find("xds_pushes"); v.Value != nil {
			t.Errorf("%s: a rate without a time: %+v", name, v)
		}
	}
}

// Istiods that started in the same second are distinct. One that was replaced does not count,
// and an impossible age is reported.
func TestAssessIstiods(t *testing.T) {
	page := func(started string, age float64, proxies int) string {
		return fmt.Sprintf("process_start_time_seconds %s\nistiod_uptime_seconds %g\npilot_services 3\npilot_xds %d\n", started, age, proxies)
	}
	proxies := func(pages ...string) (float64, assess.Assessment) {
		files, names := map[string]string{}, []string{}
		for i, text := range pages {
			name := fmt.Sprint(i)
			files[name], names = text, append(names, name)
		}
		a, _, err := Assessment{}.FromFiles(t.Context(), names, contents(files))
		must.OK(t, err)
		v, _ := a.Signals.Find("xds_proxies")
		return *v.Value, a
	}
	if n, a := proxies(page("1000.25", 100, 4), page("1000.5", 100, 5)); n != 9 || assess.Replaced.In(a.Unknown) {
		t.Errorf("two that started in one second: %g proxies", n)
	}
	if n, a := proxies(page("1000", 100, 4), page("1150", 20, 5)); n != 5 || !assess.Replaced.In(a.Unknown) {
		t.Errorf("one after the other: %g proxies, %v", n, a.Unknown)
	}
	if n, a := proxies(page("1000", 1e300, 4), page("1000.5", 100, 5)); n != 5 || !assess.FileNotRead.In(a.Unknown) {
		t.Errorf("an endless age: %g proxies, %v", n, a.Unknown)
	}
}

// Of thousands of broken and unrelated files a few are listed, and all are counted.
func TestAssessManyBrokenFiles(t *testing.T) {
	broken := map[string]string{"pods.json": fakePodList, "pods again.json": fakePodList}
	for i := range 300 {
		broken[fmt.Sprintf("broken-%d", i)], broken[fmt.Sprintf("strange-%d", i)] = `{"configs":[7`, "a log"
	}
	a, _, err := Assessment{}.FromFiles(t.Context(), []string{"all"}, contents(map[string]string{"all": archiveOf(t, broken)}))
	must.OK(t, err)
	if len(a.Unknown) > 40 || !assess.FilesNotRead.In(a.Unknown) || !assess.FileUnknown.In(a.Unknown) {
		t.Errorf("%d unknowns: %v", len(a.Unknown), a.Unknown)
	}
	if a.Mesh.Enrolled != 1 || a.Mesh.Count(assess.Sidecar) != 1 {
		t.Errorf("pods that are listed twice: %+v", a.Mesh)
	}
}

// The age that istiod tells orders its pages and is the time between them.
func TestAssessPagesByAge(t *testing.T) {
	page := func(age, pushes int) string {
		return fmt.Sprintf("process_start_time_seconds 1\nistiod_uptime_seconds %d\npilot_services 3\npilot_xds_pushes{type=\"cds\"} %d\n", age, pushes)
	}
	a, _, err := Assessment{}.FromFiles(t.Context(), []string{"later", "earlier"}, contents(map[string]string{"later": page(300, 1600), "earlier": page(200, 600)}))
	must.OK(t, err)
	if v, _ := a.Signals.Find("xds_pushes"); a.WindowS != 100 || v.Value == nil || *v.Value < 9 || *v.Value > 11 {
		t.Errorf("over %g s: %+v", a.WindowS, v)
	}
}
