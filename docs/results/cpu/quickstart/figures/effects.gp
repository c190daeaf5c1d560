# Draws effects.svg from effects.dat: cd figures && gnuplot effects.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,512 dynamic font 'sans-serif,13' name 'effects' linewidth 1
set output 'effects.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.93359
set bmargin at screen 0.83594
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'All arms against q8' at screen 0.00833,0.96875 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; one scale, the line is no difference' at screen 0.76667,0.96875 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-4.935116680753917:16.999194621128918]
set xtics 5 format '%.0f'
set yrange [-0.5:1.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'q4' at screen 0.00833, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'better' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.2 % [+11.0, +15.5]' at screen 0.78333, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'q8-again' at screen 0.00833, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'inconclusive' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.5 % [−3.4, +0.4]' at screen 0.78333, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
plot 'effects.dat' index 0 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#1c2126' title 'All arms against q8', \
  'effects.dat' index 0 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#1c2126' title 'All arms against q8'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.70312
set bmargin at screen 0.45898
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q4 against q8' at screen 0.00833,0.73828 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.73828 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-1.238918679748891:16.72540217661003]
set xtics 2 format '%.0f'
set yrange [-0.5:4.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'regression, degree 3' at screen 0.37708, first 4 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.2 % [+11.0, +15.5]' at screen 0.78333, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.24 % [+12.92, +13.58]' at screen 0.78333, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.24 % [+12.94, +13.61]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.2 % [+11.0, +15.5]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'check: this suite, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'block pairs' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '+13.2 % [+12.4, +14.1]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 1 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#d55e00' title 'q4 against q8', \
  'effects.dat' index 1 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title 'q4 against q8'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.32617
set bmargin at screen 0.08203
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'q8-again against q8' at screen 0.00833,0.36133 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.36133 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-4.418127568022311:1.460056745236251]
set xtics 1 format '%.0f'
set yrange [-0.5:4.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'regression, degree 3' at screen 0.37708, first 4 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.5 % [−3.4, +0.4]' at screen 0.78333, first 4 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.7 % [−2.3, −1.0]' at screen 0.78333, first 3 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.7 % [−2.3, −1.0]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.5 % [−3.4, +0.5]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'check: this suite, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'block pairs' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−1.5 % [−4.0, +1.1]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 2 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#009e73' title 'q8-again against q8', \
  'effects.dat' index 2 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#009e73' title 'q8-again against q8'

unset multiplot
unset output
