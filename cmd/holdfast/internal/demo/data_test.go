package demo_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files of the demo anew")

const (
	orderCount = 2400
	firstOrder = 104200
)

// shop is what the files are made from: families, and their variants.
var shop = []struct {
	family string
	price  int // cents
	kinds  []string
}{
	{"Espresso beans 1 kg", 1890, []string{"Brazil", "Ethiopia", "Colombia", "Sumatra", "House blend", "Decaf"}},
	{"Filter coffee 500 g", 1190, []string{"Kenya", "Guatemala", "Peru", "Rwanda", "Honduras", "Decaf"}},
	{"Green tea 100 g", 890, []string{"Sencha", "Matcha", "Gyokuro", "Genmaicha", "Gunpowder", "Jasmine"}},
	{"Black tea 250 g", 790, []string{"Assam", "Darjeeling", "Ceylon", "Earl Grey", "Keemun", "Breakfast"}},
	{"Mug 300 ml", 1250, []string{"White", "Black", "Blue", "Green", "Red", "Speckled"}},
	{"Teapot 1 l", 3490, []string{"Glass", "Cast iron", "Porcelain", "Steel", "Clay", "Enamel"}},
	{"Hand grinder", 5900, []string{"Oak", "Steel", "Walnut", "Travel", "Wall", "Large"}},
	{"Dripper", 2390, []string{"Size 1", "Size 2", "Size 4", "Copper", "Glass", "Plastic"}},
	{"Paper filters 100 pieces", 390, []string{"Size 1", "Size 2", "Size 4", "Round", "Brown", "Hemp"}},
	{"Chocolate 70 g", 450, []string{"Dark", "Milk", "Nougat", "Sea salt", "Orange", "Chili"}},
}

// dice is a linear congruential generator, so that the files are the same with
// every version of Go. Constants: Knuth, MMIX.
type dice uint64

func (d *dice) below(n int) int {
	*d = *d*6364136223846793005 + 1442695040888963407
	return int(uint64(*d) >> 33 % uint64(n))
}

// generate makes the stock list and a day's orders: product k is asked for in
// proportion to 1/k, and the more popular it is the less of the demand is there.
func generate() (stock, orders string) {
	type article struct {
		sku    string
		demand int
	}
	d := dice(20261129)
	var articles []*article
	lines := []string{"sku,name,price,units"}
	var names []string
	for _, s := range shop {
		for _, kind := range s.kinds {
			names = append(names, fmt.Sprintf("%s %s,%d.%02d", s.family, kind, s.price/100, s.price%100))
			articles = append(articles, &article{sku: fmt.Sprintf("%.2s-%04d", strings.ToUpper(s.family), 1000+17*len(names))})
		}
	}
	popular := make([]*article, len(articles)) // by rank, in an order that has nothing to do with the list
	copy(popular, articles)
	for i := len(popular) - 1; i > 0; i-- {
		j := d.below(i + 1)
		popular[i], popular[j] = popular[j], popular[i]
	}
	weight := func(rank int) int { return 1_000_000 / (rank + 1) }
	total := 0
	for rank := range popular {
		total += weight(rank)
	}
	at := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	rows := []string{"order,placed_at,customer,sku,units"}
	for i := range orderCount {
		at = at.Add(time.Duration(d.below(24)) * time.Second)
		rank, roll := 0, d.below(total)
		for roll >= weight(rank) {
			roll -= weight(rank)
			rank++
		}
		units := []int{1, 1, 1, 1, 2, 2, 3}[d.below(7)]
		popular[rank].demand += units
		rows = append(rows, fmt.Sprintf("%d,%s,C%04d,%s,%d", firstOrder+i, at.Format(time.RFC3339), d.below(900), popular[rank].sku, units))
	}
	there := map[string]int{}
	for rank, a := range popular {
		percent := min(50+rank*3/2, 140)
		there[a.sku] = max(a.demand*percent/100, 1)
	}
	for i, a := range articles {
		lines = append(lines, fmt.Sprintf("%s,%s,%d", a.sku, names[i], there[a.sku]))
	}
	return strings.Join(lines, "\n") + "\n", strings.Join(rows, "\n") + "\n"
}

func TestFilesAreWhatTheGeneratorMakes(t *testing.T) {
	stock, orders := generate()
	for name, want := range map[string]string{"stock.csv": stock, "orders.csv": orders} {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), name)
	}
}

func TestFilesAreABusyDayWithTooLittleStock(t *testing.T) {
	read := func(name string) [][]string {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		require.NoError(t, err)
		return rows[1:]
	}
	stock, orders := map[string]int{}, read("orders.csv")
	for _, r := range read("stock.csv") {
		stock[r[0]] = atoi(t, r[3])
	}
	asked, times := map[string]int{}, map[string]int{}
	for _, r := range orders {
		asked[r[3]] += atoi(t, r[4])
		times[r[3]]++
	}
	short, most := 0, 0
	for sku, n := range asked {
		if n > stock[sku] {
			short++
		}
		most = max(most, times[sku])
	}
	assert.GreaterOrEqual(t, len(orders), 2000)
	assert.GreaterOrEqual(t, len(stock), 50)
	assert.GreaterOrEqual(t, short, len(stock)/4, "products that sell out")
	assert.Less(t, short, len(stock), "some do not")
	assert.Greater(t, most, 10*len(orders)/len(stock), "the most popular product is asked for 10 times as often as the average")
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}
