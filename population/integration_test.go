//go:build integration

package population_test

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshmark/meshmark/population"
)

func TestTry(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []population.Sizes{
		{Namespaces: 2, Services: 10, EndpointsPerService: 2, Proxies: 30, Gateways: 2, ServiceEntries: 3, VirtualServices: 3, DestinationRules: 3, GatewayResources: 2, AuthorizationPolicies: 2},
		{Namespaces: 10, Services: 1000, EndpointsPerService: 2, Proxies: 2000},
		{Namespaces: 10, Services: 500, EndpointsPerService: 2, Proxies: 1010},
		{},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		start := time.Now()
		ids, err := population.Ensure(ctx, config, s)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: %v, %d ids", s, time.Since(start), len(ids))
		if len(ids) > 0 {
			t.Logf("%+v %+v", ids[0], ids[len(ids)-1])
		}
	}
}
