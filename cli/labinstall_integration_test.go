//go:build integration

package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
)

// A mesh is installed into a cluster that a kubeconfig reaches, refused where
// one is, and taken away whole, but for definitions that somebody uses.
func TestInstallIntoCluster(t *testing.T) {
	m := labtest.New(t)
	linkerd := os.Getenv("MESHTRIAL_LINKERD")
	if linkerd != "" { // a lab that had Linkerd leaves its images to the next one's node
		m.Up(t, "--mesh", "linkerd", "--linkerd", linkerd)
		if code, said := m.Run(t, "lab", "down"); code != 0 {
			t.Fatalf("lab down: exit code %d, %s", code, said)
		}
	}
	clean, err := leakcheck.Take(leakcheck.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := m.Up(t, "--mesh", "none")
	status, err := local.GetStatus(m.State())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := l.Kubeconfig()
	run := func(want int, says string, args ...string) {
		t.Helper()
		code, said := m.Run(t, append([]string{"lab"}, append(args, "--kubeconfig", kubeconfig)...)...)
		if code != want || !strings.Contains(said, says) {
			t.Fatalf("%v: exit code %d (want %d), %s (want %q)", args, code, want, said, says)
		}
	}
	kubectl := func(args ...string) string { t.Helper(); return labtest.Kubectl(t, l, "", args...) }
	crds := func() string {
		return kubectl("get", "customresourcedefinitions,clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name")
	}
	before := crds()

	run(2, "was not installed by meshtrial", "uninstall", "istio")
	run(0, "istio installed after", "install", "istio", "--images", "built")
	run(2, "is installed in namespace istio-system already, by meshtrial", "install", "istio", "--images", "built")
	if got := kubectl("-n", "istio-system", "get", "deployment", "istiod", "-o", "jsonpath={.status.availableReplicas}"); got != "1" {
		t.Errorf("istiod has %s available replicas", got)
	}
	service := filepath.Join(t.TempDir(), "entry.yaml")
	if err := os.WriteFile(service, []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: mine, namespace: default}\nspec: {hosts: [mine.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl("apply", "-f", service)
	// Whoever may write ConfigMaps there does not command who uninstalls.
	note := kubectl("-n", "istio-system", "get", "configmap", "meshtrial-installation", "-o", "jsonpath={.data.objects}")
	notes := func(objects string) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"objects": objects}})
		if err != nil {
			t.Fatal(err)
		}
		kubectl("-n", "istio-system", "patch", "configmap", "meshtrial-installation", "--type", "merge", "-p", string(patch))
	}
	for object, says := range map[string]string{
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","name":"cluster-admin"}`:          "ClusterRole cluster-admin noted as installed, but without the label meshtrial.dev/installed=istio",
		`{"apiVersion":"apps/v1","kind":"Deployment","namespace":"kube-system","name":"coredns"}`:            "it is not in the mesh's namespace istio-system",
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","name":"things.example"}`: "the kind it defines is no mesh's",
	} {
		notes("[" + object + "," + strings.TrimPrefix(note, "["))
		want := 1
		if strings.Contains(says, "label") {
			want = 2
		}
		run(want, says, "uninstall", "istio")
	}
	notes(note)
	if got := kubectl("-n", "istio-system", "get", "deployment", "istiod", "-o", "jsonpath={.status.availableReplicas}"); got != "1" {
		t.Errorf("after refusals istiod has %s available replicas", got)
	}
	run(0, "left as it is: CustomResourceDefinition serviceentries.networking.istio.io: in use by ServiceEntry default/mine", "uninstall", "istio")
	if got := kubectl("get", "namespace,configmap", "-A", "-o", "name"); strings.Contains(got, "istio") {
		t.Errorf("of Istio is left: %s", got)
	}
	if got := crds(); got != before+"customresourcedefinition.apiextensions.k8s.io/serviceentries.networking.istio.io\n" &&
		strings.Replace(got, "customresourcedefinition.apiextensions.k8s.io/serviceentries.networking.istio.io\n", "", 1) != before {
		t.Errorf("before:\n%s\nafterwards:\n%s", before, got)
	}
	// What somebody else made is nobody's to replace.
	kubectl("create", "clusterrole", "istiod-clusterrole-istio-system", "--verb=get", "--resource=pods")
	run(2, "the cluster has ClusterRole istiod-clusterrole-istio-system already", "install", "istio", "--images", "built")
	if linkerd != "" {
		run(0, "linkerd installed after", "install", "linkerd", "--linkerd", linkerd)
		run(0, "linkerd uninstalled after", "uninstall", "linkerd")
	}
	if got := kubectl("get", "namespaces", "-o", "name"); strings.Contains(got, "istio") || strings.Contains(got, "linkerd") {
		t.Errorf("what was refused made something: %s", got)
	}
	// Nothing is left of a lab that is taken down while all of it runs.
	if code, said := m.Run(t, "lab", "down"); code != 0 {
		t.Fatalf("lab down: exit code %d, %s", code, said)
	}
	leakcheck.Check(t, clean, leakcheck.Options{Only: []string{"meshtrial-" + status.ID, "mtrial-" + status.ID, m.State()}}, 20*time.Second)
}
