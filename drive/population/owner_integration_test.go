//go:build integration

package population_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A population is deleted with its owner: the run that brought it to its
// present sizes, not the one that created it.
func TestGoesWithItsOwner(t *testing.T) {
	config := labtest.Start(t).RESTConfig()
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	owner := func(name string) metav1.OwnerReference {
		ns, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must.OK(t, err)
		t.Cleanup(func() { _ = kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: ns.UID}
	}
	remove := func(name string) {
		must.OK(t, kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	ours := metav1.ListOptions{LabelSelector: population.Label + "=" + population.LabelValue}
	// left returns the UIDs of namespaces and nodes by name.
	left := func() (out map[string]types.UID) {
		out = map[string]types.UID{}
		namespaces, err := kube.CoreV1().Namespaces().List(ctx, ours)
		must.OK(t, err)
		nodes, err := kube.CoreV1().Nodes().List(ctx, ours)
		must.OK(t, err)
		for _, n := range namespaces.Items {
			out[n.Name] = n.UID
		}
		for _, n := range nodes.Items {
			out[n.Name] = n.UID
		}
		return out
	}
	world, err := population.New(config)
	must.OK(t, err)
	sizes := population.Sizes{Namespaces: 3, Services: 6, EndpointsPerService: 5, Proxies: 30}
	world.Own(owner("first-owner"))
	must.OK(t, must.Err(world.Ensure(ctx, sizes)))
	made := left()
	world.Own(owner("second-owner"))
	sizes.Services = 4
	must.OK(t, must.Err(world.Ensure(ctx, sizes)))
	remove("first-owner")
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if list, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=first-owner"}); err != nil || len(list.Items) == 0 && time.Since(since) > 5*time.Second {
			break
		}
	}
	for name, uid := range left() {
		if made[name] != uid {
			t.Errorf("%s was made anew, or is too much", name)
		}
		delete(made, name)
	}
	if len(made) > 0 {
		t.Errorf("%v went with the first owner", made)
	}
	remove("second-owner")
	began := time.Now()
	eventually.Within(t, 5*time.Minute, "nothing is left", func() bool { return len(left()) == 0 })
	t.Logf("gone %.1f s after their owner was deleted", time.Since(began).Seconds())
	// A population that is adopted while it is being deleted is complete again.
	world.Own(owner("third-owner"))
	must.OK(t, must.Err(world.Ensure(ctx, sizes)))
	remove("third-owner")
	world.Own(owner("fourth-owner"))
	must.OK(t, must.Err(world.Ensure(ctx, sizes)))
	names := []string{}
	for name := range left() {
		names = append(names, name)
	}
	slices.Sort(names)
	if text := strings.Join(names, " "); len(names) != 4 {
		t.Errorf("there is %s", text)
	}
	must.OK(t, world.Remove(ctx))
}
