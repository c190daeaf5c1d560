# Draws effects.svg from effects.dat: cd figures && gnuplot effects.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,848 dynamic font 'sans-serif,13' name 'effects' linewidth 1
set output 'effects.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.95991
set bmargin at screen 0.84198
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'All arms against plain' at screen 0.00833,0.98113 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; one scale, the line is no difference' at screen 0.76667,0.98113 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-72.5119176719718:5.371253160886801]
set xtics 10 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'chain-16' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'worse' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−59.9 % [−60.8, −59.0]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'tree-8' at screen 0.00833, first 2 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'worse' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−32.6 % [−35.5, −29.6]' at screen 0.78333, first 2 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'tree-16' at screen 0.00833, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'worse' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−48.3 % [−49.5, −47.0]' at screen 0.78333, first 1 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'tree-32' at screen 0.00833, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'worse' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−66.3 % [−67.1, −65.5]' at screen 0.78333, first 0 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
plot 'effects.dat' index 0 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#1c2126' title 'All arms against plain', \
  'effects.dat' index 0 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#1c2126' title 'All arms against plain', \
  'effects.dat' index 0 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#1c2126' title 'All arms against plain', \
  'effects.dat' index 0 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#1c2126' title 'All arms against plain'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.76179
set bmargin at screen 0.64387
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'chain-16 against plain' at screen 0.00833,0.78302 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; own scale, 0 (no difference) lies off it, to the right' at screen 0.76667,0.78302 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-65.2892992865204:-53.8987586616472]
set xtics 2 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−59.9 % [−60.8, −59.0]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−60 % [−64, −55]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−60 % [−64, −55]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−60 % [−65, −55]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 1 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#d55e00' title 'chain-16 against plain', \
  'effects.dat' index 1 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#d55e00' title 'chain-16 against plain', \
  'effects.dat' index 1 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#d55e00' title 'chain-16 against plain', \
  'effects.dat' index 1 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#d55e00' title 'chain-16 against plain'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.56368
set bmargin at screen 0.44575
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-8 against plain' at screen 0.00833,0.58491 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; the line is no difference' at screen 0.76667,0.58491 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-42.06848116811791:3.1161837902309566]
set xtics 10 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set arrow from first 0, graph 0 to first 0, graph 1 nohead back lc rgb '#5b6670' lw 1.5 dt 1
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−32.6 % [−35.5, −29.6]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−33 % [−38, −26]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−33 % [−39, −27]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−33 % [−39, −26]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 2 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#009e73' title 'tree-8 against plain', \
  'effects.dat' index 2 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#009e73' title 'tree-8 against plain', \
  'effects.dat' index 2 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#009e73' title 'tree-8 against plain', \
  'effects.dat' index 2 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#009e73' title 'tree-8 against plain'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.36557
set bmargin at screen 0.24764
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-16 against plain' at screen 0.00833,0.38679 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; own scale, 0 (no difference) lies off it, to the right' at screen 0.76667,0.38679 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-54.414714201913746:-41.51897651425745]
set xtics 2 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−48.3 % [−49.5, −47.0]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−48 % [−53, −43]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−48 % [−54, −43]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−48 % [−54, −42]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 3 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#cc79a7' title 'tree-16 against plain', \
  'effects.dat' index 3 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#cc79a7' title 'tree-16 against plain', \
  'effects.dat' index 3 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#cc79a7' title 'tree-16 against plain', \
  'effects.dat' index 3 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#cc79a7' title 'tree-16 against plain'

reset
set encoding utf8
set minussign
set lmargin at screen 0.38958
set rmargin at screen 0.76667
set tmargin at screen 0.16745
set bmargin at screen 0.04953
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-32 against plain' at screen 0.00833,0.18868 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent; own scale, 0 (no difference) lies off it, to the right' at screen 0.76667,0.18868 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [-70.42851274580146:-61.88827508851838]
set xtics 1 format '%.0f'
set yrange [-0.5:3.5]
unset ytics
set grid xtics lc rgb '#e6eaed' lw 1 dt 1 back
set label 'this suite, any launch' at screen 0.00833, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'blocks, t' at screen 0.37708, first 3 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−66.3 % [−67.1, −65.5]' at screen 0.78333, first 3 left font 'sans-serif:Bold,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'percentile' at screen 0.37708, first 2 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−66.3 % [−69.7, −62.7]' at screen 0.78333, first 2 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'these prompts, these launches' at screen 0.00833, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'BCa' at screen 0.37708, first 1 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−66.3 % [−69.8, −62.9]' at screen 0.78333, first 1 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'prompts like these, any launch' at screen 0.00833, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
set label 'two-way' at screen 0.37708, first 0 right font 'sans-serif,12' tc rgb '#5b6670'
set label '−66 % [−70, −62]' at screen 0.78333, first 0 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'effects.dat' index 4 using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '#a08300' title 'tree-32 against plain', \
  'effects.dat' index 4 using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '#a08300' title 'tree-32 against plain', \
  'effects.dat' index 4 using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '#a08300' title 'tree-32 against plain', \
  'effects.dat' index 4 using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '#a08300' title 'tree-32 against plain'

unset multiplot
unset output
