package detached

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
	_ "github.com/meshtrial/meshtrial/mesh/meshes" // whose rights are in the table
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func spec(t *testing.T) Spec {
	t.Helper()
	plan := studytest.Plan(t, "name: p\nquestion: q?\nfactors: {sidecars: [none, both]}\n")
	return Spec{Run: "20261126-100000-abcd", Study: "p", Source: []byte("name: p\n"), Resolved: []byte("name: p\nquestion: q?\n"), Args: []string{"detached-run"},
		Images: lab.Images{Meshtrial: "registry.example/meshtrial:1", PullPolicy: corev1.PullIfNotPresent}, Namespace: "results", Claim: "disk",
		Rights: rights.Place(rights.Of(plan), rights.Places{Run: "meshtrial-check", Journal: journal.Namespace, Meshes: map[string]string{"istio": "istio-system"}})}
}

func objectsOf(t *testing.T, s Spec, secret *corev1.Secret) (all []*unstructured.Unstructured) {
	t.Helper()
	anchor, rest, err := s.objects(secret)
	must.OK(t, err)
	return append([]*unstructured.Unstructured{anchor}, rest...)
}

func one(t *testing.T, all []*unstructured.Unstructured, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name
	})
	if i < 0 {
		t.Fatalf("there is no %s %s/%s", kind, namespace, name)
	}
	return all[i]
}

// Every object has the run's name, none is mistaken for a leftover of a dead run from a
// terminal, and the pod has exactly the plan's rights.
func TestObjects(t *testing.T) {
	s := spec(t)
	all := objectsOf(t, s, nil)
	for _, o := range all {
		if o.GetLabels()[Label] != "20261126-100000-abcd" || o.GetLabels()[site.RunLabel] != "" {
			t.Errorf("%s %s has the labels %v", o.GetKind(), o.GetName(), o.GetLabels())
		}
		if _, known := resources[o.GetKind()]; !known {
			t.Errorf("%s is of a kind that is not made", o.GetKind())
		}
	}
	if last := all[len(all)-1]; last.GetKind() != "Job" {
		t.Errorf("the Job comes before %s %s", last.GetKind(), last.GetName())
	}
	const granted = "meshtrial:results:meshtrial-20261126-100000-abcd"
	for _, namespace := range []string{"", journal.Namespace, "istio-system"} {
		kind := "Role"
		if namespace == "" {
			kind = "ClusterRole"
		}
		binding := one(t, all, kind+"Binding", namespace, granted)
		subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
		if len(subjects) != 1 || subjects[0].(map[string]any)["name"] != "meshtrial-20261126-100000-abcd" || subjects[0].(map[string]any)["namespace"] != "results" {
			t.Errorf("%s in %q is for %v", kind, namespace, subjects)
		}
		one(t, all, kind, namespace, granted)
	}
	rules, _, _ := unstructured.NestedSlice(one(t, all, "Role", "results", "meshtrial-20261126-100000-abcd").Object, "rules")
	if len(rules) != 1 || len(rules[0].(map[string]any)["resourceNames"].([]any)) != 1 {
		t.Errorf("in its own namespace the pod may more than to say how far it is: %v", rules)
	}
	one(t, all, "ServiceAccount", "results", "meshtrial-20261126-100000-abcd")
	if text, _, _ := unstructured.NestedString(one(t, all, "ConfigMap", "results", "meshtrial-20261126-100000-abcd-study").Object, "data", "resolved.yaml"); text != string(s.Resolved) {
		t.Errorf("the study is %q", text)
	}
}

func TestObjectsRefuse(t *testing.T) {
	s := spec(t)
	s.Resolved = []byte(strings.Repeat("x", MaxStudy))
	if _, _, err := s.objects(nil); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("a study larger than a ConfigMap: %v", err)
	}
	s = spec(t)
	s.Rights = nil
	if _, _, err := s.objects(nil); err == nil {
		t.Error("a run without any rights is taken")
	}
}

// jobOf decodes the Job like [Cluster.List].
func jobOf(t *testing.T, all []*unstructured.Unstructured) (j job) {
	t.Helper()
	must.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(all[len(all)-1].Object, &j))
	return j
}

// A lost pod is replaced. A run that has its result, was rejected or cannot succeed is not
// retried.
func TestJobEndsWithTheRun(t *testing.T) {
	job := objectsOf(t, spec(t), nil)
	rules, _, err := unstructured.NestedSlice(job[len(job)-1].Object, "spec", "podFailurePolicy", "rules")
	must.OK(t, err)
	does := func(code int64) string {
		for _, r := range rules {
			codes, ok, _ := unstructured.NestedSlice(r.(map[string]any), "onExitCodes", "values")
			if ok && slices.Contains(codes, any(code)) {
				return r.(map[string]any)["action"].(string)
			}
		}
		return "" // retried that often
	}
	for code, want := range map[int64]string{errs.CodeFailure: "", 137: "", errs.CodeInterrupted: "Ignore", errs.CodeUsage: "FailJob", errs.CodeAssertion: "FailJob", errs.CodeInvalid: "FailJob", codeFinal: "FailJob"} {
		if got := does(code); got != want {
			t.Errorf("exit code %d: %q, want %q", code, got, want)
		}
	}
}

func TestPod(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		secret *corev1.Secret
		want   func(corev1.PodSpec) bool
	}{
		"a claim": {nil, nil, func(p corev1.PodSpec) bool { return p.Volumes[1].PersistentVolumeClaim.ClaimName == "disk" }},
		"a folder": {func(s *Spec) { s.Claim, s.Folder = "", "/lab/results" }, nil,
			func(p corev1.PodSpec) bool { return p.Volumes[1].HostPath.Path == "/lab/results" }},
		"room on its node": {nil, nil, func(p corev1.PodSpec) bool {
			asks := p.Containers[0].Resources.Requests
			return asks.Memory().Value() == 1<<30 && asks.Cpu().MilliValue() == 500
		}},
		"no Secret": {nil, nil, func(p corev1.PodSpec) bool { return len(p.ImagePullSecrets) == 0 }},
		"the Secret beside it": {func(s *Spec) { s.Images.PullSecret = "results/registry" }, nil,
			func(p corev1.PodSpec) bool { return p.ImagePullSecrets[0].Name == "registry" }},
		"a copy of the Secret": {func(s *Spec) { s.Images.PullSecret = "default/registry" }, &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson},
			func(p corev1.PodSpec) bool {
				return p.ImagePullSecrets[0].Name == "meshtrial-20261126-100000-abcd-pull"
			}},
		"an ordinary pod": {nil, nil, func(p corev1.PodSpec) bool {
			c := p.Containers[0].SecurityContext
			return !p.HostPID && !p.HostNetwork && *c.RunAsNonRoot && len(c.Capabilities.Add) == 0 && *c.ReadOnlyRootFilesystem && p.ServiceAccountName == "meshtrial-20261126-100000-abcd"
		}},
	} {
		s := spec(t)
		if c.change != nil {
			c.change(&s)
		}
		j := jobOf(t, objectsOf(t, s, c.secret))
		if !c.want(j.Spec.Template.Spec) {
			t.Errorf("%s: %+v", name, j.Spec.Template.Spec)
		}
		reader, err := readerPod(j.run(nil, Kept{}))
		must.OK(t, err)
		p := reader.Spec
		if len(p.Volumes) != 1 || len(p.Containers[0].VolumeMounts) != 1 || p.Volumes[0].Name != "results" || p.ServiceAccountName != "" || *p.AutomountServiceAccountToken || p.Containers[0].Image != s.Images.Meshtrial ||
			len(p.ImagePullSecrets) != len(j.Spec.Template.Spec.ImagePullSecrets) || !slices.Contains(p.Containers[0].Args, "/results/20261126-100000-abcd") || reader.Labels[partLabel] != partReader {
			t.Errorf("%s: the pod that reads results is %+v", name, reader)
		}
		if asks := p.Containers[0].Resources.Requests.Memory().Value(); asks != 32<<20 {
			t.Errorf("%s: the pod that reads results asks for %d bytes of memory", name, asks)
		}
	}
}

// fake returns a cluster without controllers.
func fake(objects ...runtime.Object) (*Cluster, *dynamicfake.FakeDynamicClient) {
	lists := map[schema.GroupVersionResource]string{claims: "PersistentVolumeClaimList"}
	for kind, resource := range resources {
		lists[resource] = kind + "List"
	}
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	return &Cluster{kube: fakecluster.New(), objects: dynamic}, dynamic
}

func disk() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "disk", "namespace": "results"}}}
}

// Everything a run creates is owned by its ClusterRole.
func TestStart(t *testing.T) {
	c, kube := fake(disk())
	must.OK(t, c.Start(t.Context(), spec(t)))
	for kind, resource := range resources {
		all, err := kube.Resource(resource).List(t.Context(), metav1.ListOptions{})
		must.OK(t, err)
		for _, o := range all.Items {
			owner := o.GetOwnerReferences()
			if o.GetName() != journal.Namespace && kind != "ClusterRole" && (len(owner) != 1 || owner[0].Kind != "ClusterRole" || owner[0].Name != "meshtrial:results:meshtrial-20261126-100000-abcd") {
				t.Errorf("%s %s belongs to %v", kind, o.GetName(), owner)
			}
		}
	}
	runs, err := c.List(t.Context(), "")
	if err != nil || len(runs) != 1 || runs[0].Name != "20261126-100000-abcd" || runs[0].Study != "p" || runs[0].State != Waiting || runs[0].Results != "pvc:results/disk" {
		t.Errorf("%+v, %v", runs, err)
	}
}

// A run's pod gets the time that its study may take to revert its changes, and stopping it
// waits that long.
func TestStopLimit(t *testing.T) {
	for ending, want := range map[time.Duration]time.Duration{
		5 * time.Minute:    6 * time.Minute,
		1000 * time.Second: 1060 * time.Second,
	} {
		s := spec(t)
		s.Ending = ending
		c, _ := fake(disk())
		must.OK(t, c.Start(t.Context(), s))
		runs, err := c.List(t.Context(), "")
		if err != nil || len(runs) != 1 {
			t.Fatalf("%+v, %v", runs, err)
		}
		var grace time.Duration
		if s := runs[0].template.Spec.TerminationGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		if grace != want || runs[0].stopLimit() != want+30*time.Second {
			t.Errorf("the pod has %v, and is waited for %v; want %v", grace, runs[0].stopLimit(), want)
		}
	}
}

func TestStartFails(t *testing.T) {
	c, _ := fake()
	if err := c.Start(t.Context(), spec(t)); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("without the claim: %v", err)
	}
	c, kube := fake(disk())
	kube.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("not yours"))
	})
	if err := c.Start(t.Context(), spec(t)); !apierrors.IsForbidden(err) {
		t.Errorf("where no Job may be made: %v", err)
	}
	left, err := kube.Resource(resources["ClusterRole"]).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("what all belongs to is left: %d, %v", len(left.Items), err)
	}
	if done, err := journal.Unreserve(t.Context(), kube); err != nil || done {
		t.Errorf("the journal's namespace stays for nobody: %t, %v", done, err)
	}
}

// Anyone who may create Jobs chooses their names: a name that is not valid for a run or
// study is neither used for a folder nor printed.
func TestForeignJobs(t *testing.T) {
	const run = "20261126-100000-abcd"
	for name, c := range map[string]struct {
		run, study, job string
		want            int
	}{
		"ours":             {run, "p", "meshtrial-" + run, 1},
		"no run":           {"", "p", "meshtrial-", 0},
		"another run":      {"journal", "p", "meshtrial-journal", 0},
		"no study":         {run, "", "meshtrial-" + run, 0},
		"up and away":      {run, "../../.ssh/x", "meshtrial-" + run, 0},
		"a terminal's":     {run, "p\x1b[2J", "meshtrial-" + run, 0},
		"of another's run": {run, "p", "mine", 0},
	} {
		job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
		job.SetNamespace("results")
		job.SetName(c.job)
		job.SetLabels(map[string]string{Label: c.run})
		job.SetAnnotations(map[string]string{studyAnnotation: c.study})
		cluster, _ := fake(job)
		if runs, err := cluster.List(t.Context(), ""); err != nil || len(runs) != c.want {
			t.Errorf("%s: %+v, %v", name, runs, err)
		}
	}
}

// An annotation names what is deleted, so only objects with the run's name are.
func TestDeleteRefusesForeignAnchor(t *testing.T) {
	role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": rbacGroup + "/v1", "kind": "ClusterRole"}}
	role.SetName("cluster-admin")
	c, kube := fake(role)
	_, err := c.Delete(t.Context(), Run{Name: "20261126-100000-abcd", State: Completed, anchor: "cluster-admin"}, true, func(string) {})
	if err == nil {
		t.Error("it is deleted")
	}
	if _, err := kube.Resource(resources["ClusterRole"]).Get(t.Context(), "cluster-admin", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// With an API server that does not know podReplacementPolicy, two pods would write to one
// directory.
func TestStartRefusesOldClusters(t *testing.T) {
	c, kube := fake(disk())
	kube.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		made := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		unstructured.RemoveNestedField(made.Object, "spec", "podReplacementPolicy")
		return true, made, nil
	})
	if err := c.Start(t.Context(), spec(t)); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error()+errs.Hint(err), "1.29") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
	left, err := kube.Resource(resources["ClusterRole"]).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("what all belongs to is left: %d, %v", len(left.Items), err)
	}
}
