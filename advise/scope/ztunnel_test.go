package scope

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A ztunnel's dump shows who brings how many bytes, by name.
func TestReadZtunnelDump(t *testing.T) {
	text, err := os.ReadFile("testdata/ztunnel.json")
	must.OK(t, err)
	p, err := Read(bytes.NewReader(text), "ztunnel", Options{})
	if err != nil || p.Kind != NodeZtunnel || p.Simulated || p.DumpBytes != int64(len(text)) || len(p.Notes) != 0 || p.Node != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	checkSums(t, p)
	owners := owned(p)
	want := map[Owner]int{
		{"Deployment", "shop", "cart"}:                2,
		{"CronJob", "shop", "report"}:                 1,
		{KindWorkload, "shop", "db"}:                  1,
		{"Pod", "shop", "debug"}:                      1,
		{"WorkloadEntry", "bank", "mainframe"}:        1,
		{"ServiceEntry", "bank", "rates"}:             1,
		{"Service", "shop", "cart"}:                   1,
		{"ServiceEntry", "bank", "rates.example.com"}: 1,
		{"Service", "shop", "late"}:                   1, // staged
		{"AuthorizationPolicy", "shop", "only-front"}: 1,
		{"PeerAuthentication", "shop", "strict"}:      1,
		{"ServiceAccount", "shop", "cart"}:            1,
		defaults:                                      1,
		certificates:                                  1,
		frame:                                         0,
	}
	for o, resources := range want {
		if got := owners[o]; got.Resources != resources || got.DumpBytes == 0 {
			t.Errorf("%s: %+v, want %d resources", o, got, resources)
		}
	}
	if len(owners) != len(want) {
		t.Errorf("%+v", p.Owners)
	}
	types := map[string]int{}
	for _, x := range p.Types {
		types[x.Type] = x.Resources
	}
	if len(types) != 4 || types[TypeWorkload] != 10 || types[TypeAuthorization] != 3 || types[TypeSecret] != 2 {
		t.Errorf("%v", types)
	}
}

// Older ztunnels print objects by address and name instead of lists.
func TestReadOldZtunnelDump(t *testing.T) {
	const text = `{"workloads":{"/10.0.0.1":{"name":"cart-1","namespace":"shop","workloadName":"cart","workloadType":"deployment"}},` +
		`"services":{"/10.1.0.1":{"name":"cart","namespace":"shop","hostname":"cart.shop.svc.cluster.local","endpoints":{}}},"policies":{"shop/p":{"name":"p","namespace":"shop"}}}`
	p, err := ReadDump(strings.NewReader(text), "x", Options{})
	if err != nil || p.Resources != 3 || !has(p, Owner{"Deployment", "shop", "cart"}) || !has(p, Owner{"Service", "shop", "cart"}) || !has(p, Owner{"AuthorizationPolicy", "shop", "p"}) {
		t.Errorf("%+v, %v", p, err)
	}
	checkSums(t, p)
}

func TestWhatIsNoZtunnelDump(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"workloads alone":  {`{"workloads":[{}]}`, `it has no "configs"`},
		"of something":     {`{"services":[{"name":"a"}],"policies":[]}`, `it has no "configs"`},
		"a word":           {`{"workloads":7,"services":[]}`, `"workloads" is no list`},
		"a strange entry":  {`{"workloads":["a"],"services":[]}`, `"workloads" has an entry that is no object`},
		"a strange member": {`{"workloads":{"a":7},"services":[]}`, `"workloads" has an entry that is no object`},
		"cut":              {`{"workloads":[{"name":"a"}],"services":[{"na`, "cut short"},
	} {
		p, err := ReadDump(strings.NewReader(c.text), name, Options{})
		var failure *DumpError
		if !errors.As(err, &failure) || !strings.Contains(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage || !p.Incomplete {
			t.Errorf("%s: %v", name, err)
		}
		checkSums(t, p)
	}
	if p, err := ReadDump(strings.NewReader(`{"workloads":[],"services":[]}`), "x", Options{}); err != nil || p.Kind != NodeZtunnel || p.Resources != 0 {
		t.Errorf("a ztunnel that knows nothing: %+v, %v", p, err)
	}
}
