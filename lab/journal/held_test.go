package journal

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/testing/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var (
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// fakeAPI is an API server for Services, ConfigMaps and the journal's own objects.
type fakeAPI struct {
	*dynamicfake.FakeDynamicClient
	versions int // versions given out
}

func newFakeAPI(objects ...runtime.Object) *fakeAPI {
	f := &fakeAPI{FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		services: "ServiceList", configMaps: "ConfigMapList", secrets: "SecretList", leases: "LeaseList", namespaces: "NamespaceList"}, objects...)}
	f.PrependReactor("*", "*", f.serve)
	return f
}

// fakeJournal is a journal whose Lease is held without renewals, until slept moves its
// clock.
type fakeJournal struct {
	*Journal
	kube  *fakeAPI
	slept time.Duration
}

func newFakeJournal(objects ...runtime.Object) *fakeJournal {
	f := &fakeJournal{kube: newFakeAPI(objects...)}
	done := make(chan struct{})
	close(done)
	held := leaseOf(Holder{Run: "r"}, nil)
	f.Journal = &Journal{kube: f.kube, open: fakeOpener{f.kube}, run: "r", lease: &lease{run: "r", api: f.kube.Resource(leases).Namespace(Namespace), object: held,
		now: func() time.Duration { return time.Hour + f.slept }, renewed: time.Hour, done: done, cancel: func(error) {}}}
	return f
}

// serve does what an API server does and the fake one does not: dry runs, versions, the
// preconditions of deletions and updates, and applying a Service.
func (f *fakeAPI) serve(a clienttesting.Action) (bool, runtime.Object, error) {
	stored := func(name string) (version, uid string) {
		if o, err := f.Tracker().Get(a.GetResource(), a.GetNamespace(), name); err == nil {
			return o.(*unstructured.Unstructured).GetResourceVersion(), string(o.(*unstructured.Unstructured).GetUID())
		}
		return "", ""
	}
	stamp := func(o runtime.Object) {
		f.versions++
		o.(*unstructured.Unstructured).SetResourceVersion(strconv.Itoa(f.versions))
	}
	conflict := func(name string) error { return apierrors.NewConflict(a.GetResource().GroupResource(), name, nil) }
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		if dryRun(a) {
			return true, a.Object, nil
		}
		stamp(a.Object)
		a.Object.(*unstructured.Unstructured).SetUID(types.UID("made-" + strconv.Itoa(f.versions)))
	case clienttesting.UpdateActionImpl:
		o := a.Object.(*unstructured.Unstructured)
		if version, _ := stored(o.GetName()); version != "" && version != o.GetResourceVersion() {
			return true, nil, conflict(o.GetName())
		}
		if dryRun(a) {
			return true, a.Object, nil
		}
		stamp(a.Object)
	case clienttesting.DeleteActionImpl:
		version, uid := stored(a.Name)
		if p := a.DeleteOptions.Preconditions; p != nil && (p.ResourceVersion != nil && *p.ResourceVersion != version || p.UID != nil && string(*p.UID) != uid) {
			return true, nil, conflict(a.Name)
		}
	case clienttesting.PatchActionImpl:
		if a.PatchType != types.ApplyPatchType {
			break
		}
		live, err := f.Tracker().Get(a.Resource, a.Namespace, a.Name)
		asked := &unstructured.Unstructured{}
		if err = errors.Join(err, asked.UnmarshalJSON(a.Patch)); err != nil {
			return true, nil, err
		}
		next := live.(*unstructured.Unstructured).DeepCopy()
		next.Object["spec"] = asked.Object["spec"]
		if dryRun(a) {
			return true, next, nil
		}
		stamp(next)
		return true, next, f.Tracker().Update(a.Resource, next, a.Namespace)
	}
	return false, nil, nil
}

// fakeOpener knows only Services.
type fakeOpener struct{ kube dynamic.Interface }

func (o fakeOpener) Open(_ context.Context, object *unstructured.Unstructured, _ string) (dynamic.ResourceInterface, error) {
	return o.kube.Resource(services).Namespace(object.GetNamespace()), nil
}

var shopWeb = Object{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web"}

// webService returns a Service; if ends is set, it has been deleted and waits for its
// finalizer.
func webService(uid string, ends bool) *unstructured.Unstructured {
	out := shopWeb.Bare()
	out.SetUID(types.UID(uid))
	out.SetFinalizers([]string{"service.kubernetes.io/load-balancer-cleanup"})
	out.Object["spec"] = map[string]any{"type": "LoadBalancer"}
	if ends {
		now := metav1.Now()
		out.SetDeletionTimestamp(&now)
	}
	return out
}

func (f *fakeJournal) web(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	found, err := f.kube.Resource(services).Namespace("shop").List(t.Context(), metav1.ListOptions{})
	must.OK(t, err)
	if len(found.Items) == 0 {
		return nil
	}
	return &found.Items[0]
}

func (f *fakeJournal) entries(t *testing.T) []*Entry {
	t.Helper()
	out, err := Entries(t.Context(), f.kube)
	must.OK(t, err)
	return out
}

// ends makes the Service disappear like one with a finalizer: it exists until the n-th look
// after its deletion.
func (f *fakeJournal) ends(looks int) {
	deleted := false
	f.kube.PrependReactor("delete", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		deleted = true
		return true, nil, f.kube.Tracker().Update(services, webService("u1", true), "shop")
	})
	f.kube.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if deleted {
			if looks--; looks == 0 {
				return false, nil, f.kube.Tracker().Delete(services, "shop", "web")
			}
		}
		return false, nil, nil
	})
}

// An object that a step removed, and that still waits for its finalizers when the step ends,
// is recreated once it is gone.
func TestMadeAgainAfterItsFinalizers(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	f.ends(3)
	must.OK(t, f.Remove(t.Context(), shopWeb, "test"))
	done, err := f.Restore(t.Context(), nil)
	if err != nil || len(done) != 1 || done[0].Text != "recreated as it was" {
		t.Errorf("%+v, %v", done, err)
	}
	if now := f.web(t); now == nil || now.GetDeletionTimestamp() != nil || now.GetUID() == "u1" {
		t.Errorf("it is not there again: %v", now)
	}
	if left := f.entries(t); len(left) > 0 {
		t.Errorf("%+v is left", left[0])
	}
}

// If that takes longer than the available time, its entry stays, even if the object is
// removed or changed once more.
func TestStillEnding(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	f.ends(-1)
	must.OK(t, f.Remove(t.Context(), shopWeb, "test"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if done, err := f.Restore(ctx, nil); !errors.Is(err, errEnding) || !strings.Contains(err.Error(), "load-balancer-cleanup") || !strings.Contains(errs.Hint(err), "cluster restore") || len(done) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	must.OK(t, f.Remove(t.Context(), shopWeb, "test"))
	must.OK(t, must.Err(f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))))
	if left := f.entries(t); len(left) != 1 || left[0].Done != Removed || left[0].Whole == nil {
		t.Errorf("%+v", left)
	}
}

// An object that someone else is deleting is not recorded, so that it is not recreated.
func TestRemovedBySomebodyElse(t *testing.T) {
	f := newFakeJournal(webService("u1", true))
	must.OK(t, f.Remove(t.Context(), shopWeb, "test"))
	if left := f.entries(t); len(left) > 0 {
		t.Errorf("%+v", left[0])
	}
}

// typeOf is an edit of the Service.
func typeOf(kind string) Edit {
	return func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return live, unstructured.SetNestedField(live.Object, kind, "spec", "type")
	}
}

// A machine that sleeps longer than the Lease lasts, between an entry and its write or
// before the write arrives, leaves no unrecorded change: the next run may have discarded the
// entry.
func TestSlept(t *testing.T) {
	made := webService("", false)
	for name, c := range map[string]struct {
		there  bool // whether the Service exists
		verb   string
		change func(context.Context, *Journal) error
	}{
		"change": {true, "update", func(ctx context.Context, j *Journal) error {
			_, err := j.Change(ctx, shopWeb, "test", typeOf("ClusterIP"))
			return err
		}},
		"make":   {false, "create", func(ctx context.Context, j *Journal) error { _, _, err := j.Apply(ctx, made, "test"); return err }},
		"remove": {true, "delete", func(ctx context.Context, j *Journal) error { return j.Remove(ctx, shopWeb, "test") }},
	} {
		for when, resource := range map[string]string{"before the write": "secrets", "with the write": "services"} {
			t.Run(name+", "+when, func(t *testing.T) {
				f := newFakeJournal()
				if c.there {
					f = newFakeJournal(webService("u1", false))
				}
				writes := 0
				f.kube.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.GetResource() == services && a.GetVerb() == c.verb && !dryRun(a) {
						writes++
					}
					if a.GetResource().Resource == resource && a.GetVerb() != "get" && a.GetVerb() != "list" && !dryRun(a) {
						f.slept = time.Hour
					}
					return false, nil, nil
				})
				if err := c.change(t.Context(), f.Journal); !errors.Is(err, ErrLost) {
					t.Errorf("%v", err)
				}
				if resource == "secrets" && writes > 0 {
					t.Errorf("%d writes after the Lease was lost", writes)
				}
				if resource == "services" && writes == 0 {
					t.Error("nothing was written")
				}
				now := f.web(t)
				if (now != nil) != c.there {
					t.Fatalf("the Service is %v", now)
				}
				if now != nil && now.Object["spec"].(map[string]any)["type"] != "LoadBalancer" {
					t.Errorf("it is not as it was: %v", now.Object["spec"])
				}
			})
		}
	}
}

func dryRun(a clienttesting.Action) bool {
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		return len(a.CreateOptions.DryRun) > 0
	case clienttesting.UpdateActionImpl:
		return len(a.UpdateOptions.DryRun) > 0
	case clienttesting.PatchActionImpl:
		return len(a.PatchOptions.DryRun) > 0
	}
	return false
}

// answers returns an error for the first write of the Service, whether or not it is
// executed.
func (f *fakeJournal) answers(verb string, answer error, lands bool) {
	answered := false
	f.kube.PrependReactor(verb, "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if answered || dryRun(a) {
			return false, nil, nil
		}
		answered = true
		if !lands {
			return true, nil, answer
		}
		handled, _, err := f.kube.serve(a)
		switch a := a.(type) {
		case clienttesting.CreateActionImpl:
			err = f.kube.Tracker().Create(services, a.Object, a.Namespace)
		case clienttesting.UpdateActionImpl:
			if !handled {
				err = f.kube.Tracker().Update(services, a.Object, a.Namespace)
			}
		}
		if err != nil {
			return true, nil, err
		}
		return true, nil, answer
	})
}

// For a write whose answer is lost, or whose execution the API server does not confirm, it
// is unknown whether it took effect. The possible changes are returned with the error. After
// reverting them the object is in its original state and nothing is recorded, either way.
func TestAnswerLost(t *testing.T) {
	asked := shopWeb.Bare()
	asked.Object["spec"] = map[string]any{"type": "ClusterIP"}
	lost := &url.Error{Op: "Put", URL: "https://cluster", Err: syscall.ECONNRESET}
	apply := func(ctx context.Context, j *Journal) ([]fields.Field, bool, error) {
		return j.Apply(ctx, asked, "test")
	}
	for name, c := range map[string]struct {
		there  bool // whether the Service exists
		verb   string
		change func(context.Context, *Journal) (step []fields.Field, made bool, err error)
	}{
		"change": {true, "update", func(ctx context.Context, j *Journal) ([]fields.Field, bool, error) {
			step, err := j.Change(ctx, shopWeb, "test", typeOf("ClusterIP"))
			return step, false, err
		}},
		"apply": {true, "patch", apply},
		"make":  {false, "create", apply},
	} {
		for answer, a := range map[string]struct {
			err         error
			lands, told bool
		}{
			"lost, landed":      {lost, true, true},
			"lost, not landed":  {lost, false, true},
			"timed out, landed": {apierrors.NewTimeoutError("etcd", 1), true, true},
			"refused":           {apierrors.NewForbidden(services.GroupResource(), "web", nil), false, false},
		} {
			t.Run(name+", "+answer, func(t *testing.T) {
				f := newFakeJournal()
				if c.there {
					f = newFakeJournal(webService("u1", false))
				}
				f.answers(c.verb, a.err, a.lands)
				step, made, err := c.change(t.Context(), f.Journal)
				if !errors.Is(err, a.err) {
					t.Errorf("%v, want %v", err, a.err)
				}
				if made != (a.told && !c.there) || len(step) > 0 != (a.told && c.there) {
					t.Errorf("changed %v, made %t", step, made)
				}
				switch err = nil; {
				case made:
					_, err = f.Restore(t.Context(), func(e *Entry) bool { return e.Object == shopWeb })
				case len(step) > 0:
					err = f.Revert(t.Context(), shopWeb, "test", step)
				}
				if err != nil {
					t.Errorf("taken back: %v", err)
				}
				now := f.web(t)
				if (now != nil) != c.there || now != nil && now.Object["spec"].(map[string]any)["type"] != "LoadBalancer" {
					t.Errorf("it is not as it was: %v", now)
				}
				if left := f.entries(t); a.told && len(left) > 0 {
					t.Errorf("%+v is left", left[0])
				}
			})
		}
	}
}

// What someone has written since is not reverted but reported.
func TestSleptAndSomebodyWrote(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	f.kube.PrependReactor("update", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if dryRun(a) || f.slept > 0 {
			return false, nil, nil
		}
		f.slept = time.Hour
		theirs := a.(clienttesting.UpdateActionImpl).Object.DeepCopyObject().(*unstructured.Unstructured)
		ours := theirs.DeepCopy()
		ours.SetResourceVersion("10")
		theirs.SetResourceVersion("11")
		theirs.Object["spec"] = map[string]any{"type": "NodePort"}
		return true, ours, f.kube.Tracker().Update(services, theirs, "shop")
	})
	_, err := f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "could not be reverted") || !strings.Contains(errs.Hint(err), "cluster status") {
		t.Errorf("%v", err)
	}
	if is := f.web(t); is.Object["spec"].(map[string]any)["type"] != "NodePort" {
		t.Errorf("%v", is)
	}
}

// An entry that another run has made for the same object in the meantime stays.
func TestForgetsItsOwn(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	must.OK(t, must.Err(f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))))
	old := f.entries(t)[0]
	again := *old
	again.Run = "another"
	must.OK(t, again.save(t.Context(), f.kube))
	if err := old.forget(t.Context(), f.kube); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	if left := f.entries(t); len(left) != 1 || left[0].Run != "another" {
		t.Errorf("%+v", left)
	}
	if err := again.forget(t.Context(), f.kube); err != nil || len(f.entries(t)) > 0 {
		t.Errorf("%v, %+v", err, f.entries(t))
	}
}

func ownNamespace(uid string, labels map[string]string) *unstructured.Unstructured {
	out := (Object{APIVersion: "v1", Kind: "Namespace", Name: Namespace}).Bare()
	out.SetUID(types.UID(uid))
	out.SetLabels(labels)
	return out
}

// The journal's namespace is removed while the Lease is held, but not one that another run
// has made in the meantime.
func TestLeave(t *testing.T) {
	for name, c := range map[string]struct {
		slept  bool // after checking it
		stored string
		stays  bool
	}{
		"held":       {false, "n1", false},
		"slept":      {true, "n1", true},
		"made again": {false, "n2", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeJournal(ownNamespace(c.stored, map[string]string{Label: "namespace"}))
			f.kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				if c.slept {
					f.slept = time.Hour
				}
				return true, ownNamespace("n1", map[string]string{Label: "namespace"}), nil
			})
			must.OK(t, f.Leave(t.Context()))
			if _, err := f.kube.Tracker().Get(namespaces, "", Namespace); (err == nil) != c.stays {
				t.Errorf("%v", err)
			}
		})
	}
}

// The successor of a silent holder without entries uses a different namespace than the one
// that the former may be about to remove.
func TestShutOut(t *testing.T) {
	made := ownNamespace("n1", map[string]string{Label: "namespace"})
	silent := Holder{Run: "a", Process: "p"}
	for name, c := range map[string]struct {
		former    Holder
		namespace *unstructured.Unstructured
		noted     bool
		keep      bool
		anew      bool
	}{
		"silent":               {silent, made, false, false, true},
		"given back":           {Holder{}, made, false, false, false},
		"certainly dead":       {Holder{Run: "a", Process: "gone"}, made, false, false, false},
		"something is noted":   {silent, made, true, false, false},
		"in one's own cluster": {silent, made, false, true, false},
		"a prepared namespace": {silent, ownNamespace("n1", map[string]string{partOf: "meshtrial"}), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeJournal(c.namespace)
			if c.noted {
				must.OK(t, entry().save(t.Context(), f.kube))
			}
			w := waiting{kube: f.kube, Options: Options{Keep: c.keep, Dead: func(p string) bool { return p == "gone" }}}
			taken := leaseOf(Holder{Run: "b"}, nil)
			if got := w.shutOut(t.Context(), c.former, taken); (got == nil) != c.anew {
				t.Errorf("%v", got)
			}
			if _, err := f.kube.Tracker().Get(namespaces, "", Namespace); (err != nil) != c.anew {
				t.Errorf("%v", err)
			}
		})
	}
}

// An API server that has answered once is waited for as long as the run that has the
// cluster. One that never answered, or is gone for good, is not waited for, nor is any
// without --wait.
func TestWaitOutlastsSilence(t *testing.T) {
	for name, c := range map[string]struct {
		wait    time.Duration
		refused string // the resource whose requests fail
		from    int    // from which look on
		gone    bool   // the cluster is known to be gone
		taken   bool
	}{
		"the Lease":           {time.Hour, "leases", 2, false, true},
		"the namespace":       {time.Hour, "namespaces", 2, false, true},
		"no time to wait":     {0, "leases", 1, false, false},
		"never answered yet":  {time.Hour, "namespaces", 1, false, false},
		"gone with the other": {time.Hour, "leases", 2, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeJournal(ownNamespace("n1", map[string]string{Label: "namespace"}))
			must.OK(t, f.kube.Tracker().Create(leases, leaseOf(Holder{Run: "a"}, nil), Namespace))
			looks := 0
			f.kube.PrependReactor("get", c.refused, func(clienttesting.Action) (bool, runtime.Object, error) {
				switch looks++; looks {
				case c.from:
					return true, nil, &url.Error{Op: "Get", URL: "https://cluster", Err: syscall.ECONNREFUSED}
				case c.from + 1: // the Lease has been returned in the meantime
					free := leaseOf(Holder{}, nil)
					return false, nil, f.kube.Tracker().Update(leases, free, Namespace)
				}
				return false, nil, nil
			})
			taken, err := acquire(t.Context(), f.kube, Options{Holder: Holder{Run: "b"}, Wait: c.wait, Gone: func() bool { return c.gone }})
			if c.taken && (err != nil || holderOf(taken).Run != "b") || !c.taken && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v, %v", taken, err)
			}
		})
	}
}

// A machine that was suspended for longer than a Lease lasts has not lost the Lease if only
// the first renewal fails: the API server was suspended, too. Two failures lose it.
func TestRenewedAfterStandstill(t *testing.T) {
	for _, c := range []struct {
		fail int // number of failing renewals
		lost bool
	}{{0, false}, {1, false}, {2, true}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeJournal()
			l := f.lease
			var err error
			l.object, err = l.api.Create(t.Context(), l.object, metav1.CreateOptions{})
			must.OK(t, err)
			f.slept = 40 * time.Second
			renewals := 0
			f.kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if renewals++; renewals <= c.fail {
					return true, nil, errors.New("etcdserver: leader changed")
				}
				return false, nil, nil
			})
			var lost error
			l.keep(func(cause error) { lost = cause })
			time.Sleep(renewEvery + 3*renewAgain)
			synctest.Wait()
			if errors.Is(lost, ErrLost) != c.lost || renewals == 0 {
				t.Errorf("after %d of %d renewals failed: %v", c.fail, renewals, lost)
			}
			l.cancel(nil)
			<-l.done
		})
	}
}

// A renewal that was executed after it was given up makes the next one conflict with a Lease
// that is still this run's; that renewal succeeds all the same.
func TestRenewedAfterLateRenewal(t *testing.T) {
	f := newFakeJournal()
	l := f.lease
	created, err := l.api.Create(t.Context(), l.object, metav1.CreateOptions{})
	must.OK(t, err)
	l.object = created
	late := created.DeepCopy()
	must.OK(t, unstructured.SetNestedField(late.Object, "2026-01-01T00:00:00.000000Z", "spec", "renewTime"))
	must.OK(t, must.Err(l.api.Update(t.Context(), late, metav1.UpdateOptions{})))
	f.slept = 30 * time.Second
	must.OK(t, l.renew(t.Context()))
	if age := l.age(); age != 0 {
		t.Errorf("renewed %v ago", age)
	}
}

// Original returns an object without this journal's changes but with those of others, and
// does not change the cluster.
func TestOriginal(t *testing.T) {
	f := newFakeJournal(webService("u1", false))
	before, err := f.Original(t.Context(), shopWeb)
	must.OK(t, err)
	must.OK(t, must.Err(f.Change(t.Context(), shopWeb, "test", typeOf("ClusterIP"))))
	theirs, err := f.kube.Resource(services).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{})
	must.OK(t, err)
	must.OK(t, unstructured.SetNestedField(theirs.Object, "somebody", "spec", "externalName"))
	theirs, err = f.kube.Resource(services).Namespace("shop").Update(t.Context(), theirs, metav1.UpdateOptions{})
	must.OK(t, err)
	got, err := f.Original(t.Context(), shopWeb)
	must.OK(t, err)
	was, _, _ := unstructured.NestedString(before.Object, "spec", "type")
	is, _, _ := unstructured.NestedString(got.Object, "spec", "type")
	other, _, _ := unstructured.NestedString(got.Object, "spec", "externalName")
	if is != was || is == "ClusterIP" || other != "somebody" {
		t.Errorf("%q, was %q, and %q", is, was, other)
	}
	if now, err := f.kube.Resource(services).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || now.GetResourceVersion() != theirs.GetResourceVersion() || len(f.entries(t)) != 1 {
		t.Errorf("%v, %+v", err, now)
	}
}
