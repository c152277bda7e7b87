package app

import "testing"

func TestInReport(t *testing.T) {
	for path, want := range map[string]struct {
		file        reportFile
		ignored, ok bool
	}{
		"bug-report/proxies/shop/cart-1/config_dump?include_eds":      {reportFile{"shop/cart-1", "config_dump?include_eds"}, false, true},
		"bug-report/proxies/shop/cart-1/stats/prometheus":             {reportFile{"shop/cart-1", "stats/prometheus"}, false, true},
		"./bug-report/bug-report/proxies/shop/cart-1/istio-proxy.log": {reportFile{"shop/cart-1", "istio-proxy.log"}, false, true},
		"proxies/shop/cart-1/certs":                                   {reportFile{"shop/cart-1", "certs"}, true, true},
		"bug-report/istio/istio-system/istiod-1/metrics":              {reportFile{"istio-system/istiod-1", "metrics"}, false, true},
		"bug-report/istio/istio-system/istiod-1/debug/configz":        {reportFile{"istio-system/istiod-1", "debug/configz"}, true, true},
		"bug-report/istio/istio-system/istiod-1/debug/syncz":          {reportFile{"istio-system/istiod-1", "debug/syncz"}, false, true},
		"bug-report/cluster/k8s-resources":                            {reportFile{"", "k8s-resources"}, false, true},
		"bug-report/cluster/secrets":                                  {reportFile{"", "secrets"}, true, true},
		"bug-report/versions":                                         {ignored: true, ok: true},
		"cluster/pods.json":                                           {reportFile{"", "pods.json"}, false, true},
		"bug-report/cni/istio-cni-node-1/cni.log":                     {reportFile{"", "istio-cni-node-1/cni.log"}, true, true},
		"dumps/proxies/shop/cart-1/clusters":                          {},
		"cart.json":                                                   {},
		"":                                                            {},
	} {
		f, ignored, ok := inReport(path)
		if f != want.file || ignored != want.ignored || ok != want.ok {
			t.Errorf("%s: %+v, %v, %v", path, f, ignored, ok)
		}
	}
}

func TestPodIn(t *testing.T) {
	pods := map[string]bool{"shop/cart-1": true, "shop/cart-1-canary": true, "shop/db-0": true, "bank/db-0": true}
	for path, want := range map[string]string{
		"clusters-cart-1.txt": "shop/cart-1", "cart-1.before": "shop/cart-1", "clusters_cart-1_2": "shop/cart-1", "cart-1-canary": "shop/cart-1-canary",
		"later/bank/db-0/clusters": "bank/db-0", "db-0": "", "cart-11": "", "": "", "shop": "",
	} {
		if got := podIn(path, pods); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
