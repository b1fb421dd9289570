;;; edn-bridge-markdown-table.el --- Tables in markdown  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The columns of a table are laid out by `display' properties on its bars,
;; once its last line is there; what is copied is the text that came.  A table
;; follows the width of its window.  Where one is too wide, its cells are
;; wrapped, each in its column; where the columns would get too narrow, each
;; cell begins a line of its own, behind the heading of its column.  A button
;; then shows the table in a buffer of its own, with lines as long as they
;; must be.
;;
;; Knows no markdown but the lines of a table, whose cells have their faces.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-transcript)
(require 'edn-bridge-view)
(require 'edn-bridge-markdown-inline)

(declare-function edn-bridge-markdown-region "edn-bridge-markdown")

(defconst edn-bridge-markdown--table-rule
  "[ \t]*|[ \t]*:?-+:?[ \t]*\\(?:|[ \t]*:?-+:?[ \t]*\\)*|?[ \t]*$"
  "Matches the second line of a table, which says how columns are aligned.")

(defconst edn-bridge-markdown--table-limit 40000
  "Longest table, in characters, that is laid out.")

(defvar edn-bridge-markdown--drawn nil
  "Bars of the table that is laid out: a hash table by the columns beside.")

(defvar edn-bridge-markdown-table-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-view-table)
    (define-key map [mouse-2] #'edn-bridge-markdown-view-table)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on tables that are too wide for their window.")

(defun edn-bridge-markdown--lay-out (start end &optional made)
  "Lay out the columns of the table between START and END.
They are as wide as what is displayed, which is less where the markup is
hidden.  MADE non-nil means that it was laid out before, for another width.
What it was laid out for stands at its start: how wide it is shown, how wide
without its markup, the width that it was laid out for, its length, and
whether its cells are wrapped."
  (let* ((rows (edn-bridge-markdown--rows start end))
         (rule (nth 1 rows))
         (body (cons (car rows) (nthcdr 2 rows)))
         (aligns (mapcar #'edn-bridge-markdown--align (cdr rule)))
         (shown (edn-bridge-markdown--widths body nil))
         (hidden (edn-bridge-markdown--widths body t))
         (before (get-text-property start 'edn-bridge-markdown-fitted))
         (table (list (apply #'+ (length shown) shown)
                      (apply #'+ (length hidden) hidden)
                      (edn-bridge-markdown--table-width)
                      (- end start)
                      nil))
         (shown (and (edn-bridge-markdown--fits-p (nth 0 table)) shown))
         (hidden (and (edn-bridge-markdown--fits-p (nth 1 table)) hidden)))
    (unless made
      (add-face-text-property (caar rows) (caadr rows)
                              'edn-bridge-markdown-table-heading))
    (when (nth 4 before)
      (edn-bridge-markdown--unwrap rows))
    (setf (nth 4 table)
          (not (or hidden
                   ;; Codes for what cannot be seen are displayed there too.
                   (edn-bridge-visible-codes-p start end))))
    (edn-bridge-markdown--offer-table start end (not hidden) (nth 4 table))
    (when (nth 4 table)
      (edn-bridge-markdown--wrap rows aligns))
    (put-text-property start (1+ start) 'edn-bridge-markdown-fitted table)
    (when (and (or made shown hidden)
               (not (nth 4 table)))
      (edn-bridge-markdown--display
       (car rule)
       (save-excursion (goto-char (car rule)) (line-end-position))
       (edn-bridge-markdown--drawn-rule hidden)
       (edn-bridge-markdown--drawn-rule shown))
      (let ((edn-bridge-markdown--drawn (make-hash-table)))
        (pcase-dolist (`(,_ . ,cells) body)
          (let ((bars (edn-bridge-markdown--bars cells shown aligns nil)))
            (cl-loop
             for place in (edn-bridge-markdown--bar-places cells)
             for bar in (edn-bridge-markdown--bars cells hidden aligns t)
             do (edn-bridge-markdown--display place (1+ place) bar
                                              (pop bars)))))
        (when (edn-bridge-markdown--in-pixels-p start end)
          (edn-bridge-markdown--lay-out-pixels rule body aligns
                                               shown hidden))))))

;;;; Wrapped cells

;; A row is displayed as several lines, which keep the faces and the links of
;; the cells.  Each line is displayed for text of its own: in one string of
;; several lines, point could not move from line to line.

(defconst edn-bridge-markdown--narrowest-cell 12
  "Columns that a wrapped cell has at least.
A table with less room begins a line with each cell.")

(defun edn-bridge-markdown--unwrap (rows)
  "Have the lines of ROWS displayed as their text again."
  (pcase-dolist (`(,start . ,_) rows)
    (let ((end (save-excursion (goto-char start) (line-end-position))))
      (remove-list-of-text-properties start end '(display))
      (while (setq start (text-property-any start end 'keymap
                                            edn-bridge-markdown-table-map))
        (remove-list-of-text-properties start (1+ start) '(keymap))))))

(defun edn-bridge-markdown--wrap (rows aligns)
  "Wrap the cells of ROWS, those of a table that is too wide.
ALIGNS is how its columns are aligned.  Where the markup is hidden in this
buffer, it is the text without the markup that is wrapped, and the other way
round: to wrap both would take twice the time."
  (let ((hidden (and edn-bridge-markdown-hidden
                     (edn-bridge-markdown--wrapped-rows rows aligns t)))
        (shown (and (not edn-bridge-markdown-hidden)
                    (edn-bridge-markdown--wrapped-rows rows aligns nil))))
    (pcase-dolist (`(,start . ,_) rows)
      (edn-bridge-markdown--display-lines
       start (save-excursion (goto-char start) (line-end-position))
       (pop hidden) (pop shown)))))

(defun edn-bridge-markdown--display-lines (start end hidden shown)
  "Have HIDDEN displayed for the text between START and END.
That is a list of lines, and SHOWN those where the markup is shown; one of
them is nil.  A line begins at a character that is not invisible; the last
one has the lines for which there is none."
  (let* ((count (length (or hidden shown)))
         (places (seq-take (seq-remove (lambda (place)
                                         (get-text-property place 'invisible))
                                       (number-sequence start (1- end)))
                           count))
         (pieces (length places)))
    (cl-loop
     for (place . more) on places
     for piece in (edn-bridge-markdown--pieces (or hidden shown) pieces)
     do (edn-bridge-markdown--display place (or (car more) end)
                                      (and hidden piece) (and shown piece))
     unless (get-text-property place 'keymap)
     do (put-text-property place (1+ place) 'keymap
                           edn-bridge-markdown-table-map))))

(defun edn-bridge-markdown--pieces (lines count)
  "Return LINES as COUNT pieces, which make the lines if put together."
  (let ((pieces nil))
    (dotimes (index count)
      (push (if (= index (1- count))
                (string-join lines "\n")
              (concat (pop lines) "\n"))
            pieces))
    (nreverse pieces)))

(defun edn-bridge-markdown--wrapped-rows (rows aligns hidden)
  "Return what is displayed for each of ROWS, as lists of lines.
Its cells are wrapped.  ALIGNS is how the columns are aligned.  HIDDEN
non-nil means where the markup is hidden.  Above the heading is a button."
  (let* ((texts (mapcar (lambda (row)
                          (mapcar (lambda (cell)
                                    (edn-bridge-markdown--cell-text
                                     cell hidden t))
                                  (cdr row)))
                        (cons (car rows) (nthcdr 2 rows))))
         (natural (edn-bridge-markdown--natural-widths texts))
         (width (edn-bridge-markdown--table-width))
         (widths (edn-bridge-markdown--shared-widths
                  natural (- width (* 3 (length natural)) 1)))
         (drawn (if widths
                    (edn-bridge-markdown--rows-in-columns texts widths aligns)
                  (edn-bridge-markdown--rows-as-fields texts width))))
    (push (propertize "[Whole table]"
                      'face 'edn-bridge-button 'mouse-face 'highlight
                      'keymap edn-bridge-markdown-table-map)
          (car drawn))
    drawn))

(defun edn-bridge-markdown--natural-widths (texts)
  "Return the widths of the columns of TEXTS, a list of cells for each row."
  (let ((widths (make-list (apply #'max (mapcar #'length texts)) 1)))
    (dolist (row texts)
      (let ((rest widths))
        (dolist (text row)
          (setcar rest (max (car rest) (string-width text)))
          (setq rest (cdr rest)))))
    widths))

(defun edn-bridge-markdown--shared-widths (natural room)
  "Return the widths of columns that are NATURAL wide, within ROOM columns.
The widest get alike.  Return nil where a cell would get too narrow."
  (cl-loop for most downfrom room to edn-bridge-markdown--narrowest-cell
           for widths = (mapcar (lambda (width) (min width most)) natural)
           when (<= (apply #'+ widths) room) return widths))

(defun edn-bridge-markdown--rows-in-columns (texts widths aligns)
  "Return the lines of the heading, the rule and the rows of TEXTS.
Their cells are wrapped in columns of WIDTHS, aligned by ALIGNS.  Where a
row has several lines, rules part the rows."
  (let* ((bar (propertize "│" 'face 'edn-bridge-markdown-table))
         (rule (edn-bridge-markdown--drawn-rule
                (mapcar (lambda (width) (+ width 2)) widths)))
         (drawn (mapcar (lambda (row)
                          (mapcar (lambda (line)
                                    (concat bar " "
                                            (mapconcat #'identity line
                                                       (concat " " bar " "))
                                            " " bar))
                                  (edn-bridge-markdown--wrapped-cells
                                   row widths aligns)))
                        texts))
         (parted (seq-some #'cdr (cdr drawn))))
    (cons (car drawn)
          (cons (list rule)
                (cl-loop for (lines . more) on (cdr drawn)
                         collect (if (and parted more)
                                     (append lines (list rule))
                                   lines))))))

(defun edn-bridge-markdown--rows-as-fields (texts width)
  "Return the lines of the heading, the rule and the rows of TEXTS.
Each cell begins a line, behind the heading of its column, in WIDTH columns."
  (let* ((labels (car texts))
         (label (min (apply #'max 1 (mapcar #'string-width labels))
                     (/ width 3)))
         (room (max 1 (- width label 2)))
         (names (mapcar (lambda (text)
                          (edn-bridge-markdown--wrapped text label))
                        labels))
         (rule (propertize (make-string width ?─)
                           'face 'edn-bridge-markdown-markup)))
    (cons nil
          (cons (list rule)
                (cl-loop
                 for (row . more) on (cdr texts)
                 collect
                 (append
                  (cl-loop for text in row
                           for rest = names then (cdr rest)
                           unless (equal text "")
                           append (edn-bridge-markdown--field
                                   (car rest) label
                                   (edn-bridge-markdown--wrapped text room)))
                  (and more (list rule))))))))

(defun edn-bridge-markdown--field (names width lines)
  "Return NAMES, in WIDTH columns, with LINES behind them, as a list of lines."
  (let ((field nil))
    (while (or names lines)
      (let ((name (or (pop names) ""))
            (line (pop lines)))
        (push (if line
                  (concat name
                          (make-string (max 0 (- (+ width 2)
                                                 (string-width name)))
                                       ?\s)
                          line)
                name)
              field)))
    (nreverse field)))

(defun edn-bridge-markdown--wrapped-cells (texts widths aligns)
  "Return the lines of a row with TEXTS, wrapped in columns of WIDTHS.
Each is a list of texts that are as wide as their columns, aligned by ALIGNS."
  (let* ((cells (cl-loop for width in widths
                         for rest = texts then (cdr rest)
                         collect (edn-bridge-markdown--wrapped
                                  (or (car rest) "") width)))
         (height (apply #'max (mapcar #'length cells))))
    (cl-loop for index below height
             collect (cl-loop for cell in cells
                              for width in widths
                              for rest = aligns then (cdr rest)
                              collect (edn-bridge-markdown--padded
                                       (or (nth index cell) "") width
                                       (car rest))))))

(defun edn-bridge-markdown--padded (text width align)
  "Return TEXT with blanks around it, WIDTH columns wide, aligned by ALIGN."
  (let* ((room (max 0 (- width (string-width text))))
         (left (pcase align
                 ('right room)
                 ('center (/ room 2))
                 (_ 0))))
    (concat (make-string left ?\s) text (make-string (- room left) ?\s))))

(defun edn-bridge-markdown--wrapped (text width)
  "Return TEXT as a list of lines, each at most WIDTH columns wide.
A line ends between words where it can."
  (if (<= (string-width text) width)
      (list text)
    (edn-bridge-markdown--wrapped-long text width)))

(defun edn-bridge-markdown--wrapped-long (text width)
  "Do what `edn-bridge-markdown--wrapped' does with TEXT and WIDTH."
  (let ((lines nil)
        (start 0)                       ; of the line
        (blank nil)                     ; the last blank in the line
        (columns 0)                     ; of the line so far
        (place 0))
    (while (< place (length text))
      (let* ((char (aref text place))
             (next (+ columns (char-width char))))
        (cond
         ((or (<= next width) (= place start))
          (when (eq char ?\s)
            (setq blank place))
          (setq columns next
                place (1+ place)))
         ((eq char ?\s)
          (push (substring text start place) lines)
          (setq place (1+ place)
                start place
                blank nil
                columns 0))
         (t
          (let ((end (if (and blank (> blank start)) blank place)))
            (push (substring text start end) lines)
            (setq start (if (= end place) place (1+ end))
                  place start
                  blank nil
                  columns 0))))))
    (when (< start (length text))
      (push (substring text start) lines))
    (mapcar #'string-trim-right (nreverse lines))))

;;;; Columns in pixels

;; A character may be wider or narrower than the columns it counts for: one of
;; another font, as those of Chinese and of emoji often are.  Where the frame
;; has pixels, the blank before each bar then reaches up to the place of the
;; bar, which is that of the widest cell.

(defun edn-bridge-markdown--in-pixels-p (start end)
  "Return non-nil if the table between START and END is laid out in pixels.
Text of ASCII is as wide as it counts in the font of code."
  (and (display-graphic-p)
       (save-excursion
         (goto-char start)
         (re-search-forward "[^[:ascii:]]" end t))))

(defun edn-bridge-markdown--pixels (text)
  "Return how many pixels TEXT is wide."
  (if (fboundp 'string-pixel-width)
      (string-pixel-width text)
    (with-temp-buffer
      (insert text)
      (save-window-excursion
        (set-window-dedicated-p nil nil)
        (set-window-buffer nil (current-buffer))
        (car (window-text-pixel-size nil (point-min) (point-max)))))))

(defun edn-bridge-markdown--cell-pixels (cell hidden)
  "Return how many pixels CELL is wide, with HIDDEN without its markup."
  (edn-bridge-markdown--pixels (edn-bridge-markdown--cell-text cell hidden)))

(defun edn-bridge-markdown--lay-out-pixels (rule rows aligns shown hidden)
  "Lay out RULE and the other ROWS of a table in pixels.
ALIGNS is how its columns are aligned.  SHOWN and HIDDEN are nil where the
table with and without its markup is too wide."
  (when (seq-every-p
         (lambda (row)
           (seq-every-p (lambda (cell)
                          (and (> (- (nth 1 cell) (nth 0 cell)) 1)
                               (eq (char-after (nth 0 cell)) ?\s)
                               (eq (char-before (nth 1 cell)) ?\s)))
                        (cdr row)))
         rows)
    (let* ((bar (edn-bridge-markdown--pixels
                 (propertize "│" 'face 'edn-bridge-markdown-table)))
           (hidden (and hidden (edn-bridge-markdown--pixel-places
                                rows aligns bar t)))
           (shown (and shown (edn-bridge-markdown--pixel-places
                              rows aligns bar nil)))
           (sign (propertize "│" 'face 'edn-bridge-markdown-table)))
      (dolist (row rows)
        (let ((now (pop (car hidden)))
              (then (pop (car shown))))
          (dolist (cell (cdr row))
            (let ((a (pop now)) (b (pop then)))
              ;; The blanks at the beginning and at the end of the cell.
              (edn-bridge-markdown--display
               (nth 0 cell) (1+ (nth 0 cell)) (car a) (car b))
              (edn-bridge-markdown--display
               (1- (nth 1 cell)) (nth 1 cell) (cdr a) (cdr b)))))
        (dolist (place (edn-bridge-markdown--bar-places (cdr row)))
          (edn-bridge-markdown--display place (1+ place)
                                        (and hidden sign) (and shown sign))))
      (remove-list-of-text-properties
       (car rule) (save-excursion (goto-char (car rule)) (line-end-position))
       '(display))
      (let ((now (cdr hidden)) (then (cdr shown)))
        (dolist (cell (cdr rule))
          (put-text-property (nth 0 cell) (nth 1 cell) 'face
                             'edn-bridge-transcript-rule)
          (edn-bridge-markdown--display
           (nth 0 cell) (nth 1 cell)
           (and hidden `(space :width (,(pop now))))
           (and shown `(space :width (,(pop then)))))))
      (dolist (place (edn-bridge-markdown--bar-places (cdr rule)))
        (edn-bridge-markdown--display
         place (1+ place) (and hidden sign) (and shown sign))))))

(defun edn-bridge-markdown--pixel-places (rows aligns bar hidden)
  "Return what is displayed for the blanks around the cells of ROWS.
That is a cons of a list for each row, of a cons for each cell, and of the
widths of the columns.  ALIGNS is how the columns are aligned, BAR the width
of a bar.  HIDDEN non-nil means where the markup is hidden."
  (let* ((pixels (mapcar (lambda (row)
                           (mapcar (lambda (cell)
                                     (edn-bridge-markdown--cell-pixels
                                      cell hidden))
                                   (cdr row)))
                         rows))
         (blank (edn-bridge-markdown--pixels
                 (propertize " " 'face 'edn-bridge-markdown-table)))
         (widths nil))
    (dolist (row pixels)
      (let ((rest widths))
        (dolist (width row)
          (if (null rest)
              (setq widths (append widths (list width)))
            (setcar rest (max width (car rest)))
            (setq rest (cdr rest))))))
    (cons
     (mapcar
      (lambda (row)
        (let ((from bar)
              (aligns aligns)
              (columns widths))
          (mapcar
           (lambda (width)
             (let* ((column (pop columns))
                    (room (- column width))
                    (left (pcase (pop aligns)
                            ('right room)
                            ('center (/ room 2))
                            (_ 0)))
                    (to (+ from column)))
               (prog1 (cons `(space :align-to (,(+ from left blank)))
                            `(space :align-to (,to)))
                 (setq from (+ to bar)))))
           row)))
      pixels)
     widths)))

(defun edn-bridge-markdown--offer-table (start end wide wrapped)
  "Have a key show the table between START and END, if it is too WIDE.
That is in a buffer of its own.  WRAPPED non-nil means that its cells are
wrapped, with a button above them."
  (let ((line-end (save-excursion (goto-char start) (line-end-position))))
    (cond (wide
           (put-text-property start end 'edn-bridge-markdown-table t)
           (add-text-properties
            start line-end
            (list 'keymap edn-bridge-markdown-table-map
                  'mouse-face 'highlight
                  'help-echo
                  "RET, mouse-2: show this table in a buffer of its own"))
           ;; The end of the line says so; what is copied is the text.
           (if wrapped
               (remove-list-of-text-properties
                line-end (min (1+ line-end) (point-max)) '(display))
             (add-text-properties
              line-end (min (1+ line-end) (point-max))
              (list 'keymap edn-bridge-markdown-table-map
                    'mouse-face 'highlight
                    'display (concat " " (propertize "[Whole table]" 'face
                                                     'edn-bridge-button)
                                     "\n")))))
          ((get-text-property start 'edn-bridge-markdown-table)
           (remove-list-of-text-properties
            line-end (min (1+ line-end) (point-max))
            '(keymap mouse-face display))
           (remove-list-of-text-properties start end
                                           '(edn-bridge-markdown-table))
           (remove-list-of-text-properties start line-end
                                           '(keymap mouse-face help-echo))))))

(defun edn-bridge-markdown-fit-table (start table)
  "Lay out TABLE, which begins at START, for the width of its window.
TABLE is what `edn-bridge-markdown--lay-out' noted of it.  It is laid out
anew only where it fits now and did not fit, or the other way round, or
where its cells are wrapped."
  (let ((width (edn-bridge-markdown--table-width)))
    (unless (= width (nth 2 table))
      (if (or (nth 4 table)
              (seq-some (lambda (needed)
                          (not (eq (<= needed width)
                                   (<= needed (nth 2 table)))))
                        (list (nth 0 table) (nth 1 table))))
          (with-silent-modifications
            (save-excursion
              (edn-bridge-markdown--lay-out start (+ start (nth 3 table)) t)))
        (setf (nth 2 table) width)))))

(setf (alist-get 'edn-bridge-markdown-fitted edn-bridge-transcript-fitted)
      #'edn-bridge-markdown-fit-table)

(defvar edn-bridge-markdown--any-width nil
  "Non-nil while tables may be wider than their window.")

(defvar-local edn-bridge-markdown--heading ""
  "The first row of the table that this buffer shows.")

(defun edn-bridge-markdown-table-right ()
  "Show what is to the right of the window."
  (interactive nil edn-bridge-markdown-table-mode)
  (edn-bridge-markdown--scroll-table (/ (window-width) 2)))

(defun edn-bridge-markdown-table-left ()
  "Show what is to the left of the window."
  (interactive nil edn-bridge-markdown-table-mode)
  (edn-bridge-markdown--scroll-table (- (/ (window-width) 2))))

(defun edn-bridge-markdown--scroll-table (columns)
  "Scroll the table in this window by COLUMNS, as far as it is wide."
  (let* ((width (window-width))
         (end (max 0 (- (string-width edn-bridge-markdown--heading) width -2)))
         (left (max 0 (min end (+ (window-hscroll) columns)))))
    (set-window-hscroll nil left)
    ;; Elsewhere point would take the window back.
    (vertical-motion (cons (+ left (/ width 2)) 0))))

(edn-bridge-define-view-mode edn-bridge-markdown-table-mode special-mode
  "Table: < > scroll, q quits"
  "Major mode of a table with lines as long as they must be.
The line above it is its heading."
  :keys ((">" edn-bridge-markdown-table-right)
         ("<" edn-bridge-markdown-table-left)))

(defun edn-bridge-markdown-view-table (&optional event)
  "Show the table at point, or where the mouse EVENT was, in a buffer of its own.
Its lines are as long as they must be there; > and < scroll it."
  (interactive (list last-nonmenu-event))
  (when (mouse-event-p event)
    (mouse-set-point event))
  (unless (get-text-property (point) 'edn-bridge-markdown-table)
    (user-error "There is no wide table here"))
  (let* ((property 'edn-bridge-markdown-table)
         (start (previous-single-property-change (1+ (point)) property
                                                 nil (point-min)))
         (end (next-single-property-change start property nil (point-max)))
         (text (substring-no-properties
                (edn-bridge-visible-unbroken start end))))
    (with-current-buffer (get-buffer-create "*edn-bridge table*")
      (edn-bridge-markdown-table-mode)
      (edn-bridge-visible-setup)
      (edn-bridge-markdown-setup)
      (setq truncate-lines t)
      (let ((inhibit-read-only t)
            (edn-bridge-markdown--any-width t))
        (erase-buffer)
        (insert text)
        (edn-bridge-markdown-region (point-min) (point-max))
        (edn-bridge-visible-region (point-min) (point-max))
        (goto-char (point-min)))
      (setq edn-bridge-markdown--heading
            (edn-bridge-markdown--as-shown (point-min) (line-end-position))
            header-line-format
            '((:eval (propertize " " 'display '(space :align-to 0)))
              (:eval (edn-bridge-markdown--scrolled-heading))))
      (pop-to-buffer (current-buffer)))))

(defun edn-bridge-markdown--as-shown (start end)
  "Return what is displayed for the text between START and END."
  (let ((place start)
        (parts nil))
    (while (< place end)
      (let* ((display (get-char-property place 'display))
             (next (min (next-single-char-property-change
                         place 'display nil end)
                        (next-single-char-property-change
                         place 'invisible nil end)))
             (spec (if (stringp display)
                       display
                     (cl-some (lambda (one)
                                (and (eq (car-safe one) 'when)
                                     (eval (nth 1 one) t)
                                     (cddr one)))
                              display))))
        (push (cond ((stringp spec) spec)
                    ((invisible-p place) "")
                    (t (buffer-substring place next)))
              parts)
        (setq place next)))
    (substring-no-properties (apply #'concat (nreverse parts)))))

(defun edn-bridge-markdown--scrolled-heading ()
  "Return the part of the heading that stands above what the window shows."
  (let ((columns (window-hscroll)))
    (replace-regexp-in-string
     "%" "%%"
     (propertize (truncate-string-to-width edn-bridge-markdown--heading
                                           (+ columns (window-width))
                                           columns ?\s)
                 'face 'edn-bridge-markdown-table-heading))))

(defun edn-bridge-markdown--fits-p (needed)
  "Return non-nil if a table that is NEEDED columns wide fits in its window."
  (or edn-bridge-markdown--any-width
      (<= needed (edn-bridge-markdown--table-width))))

(defun edn-bridge-markdown--table-width ()
  "Return how wide a table may be: as the window, where there is one."
  (let ((width (edn-bridge-transcript-width)))
    (if width (max 20 (1- width)) 100)))

(defun edn-bridge-markdown--rows (start end)
  "Return the rows between START and END.
Each is a list of where it begins, and cells: its positions and widths,
between two bars."
  (let ((rows nil))
    (goto-char start)
    (while (< (point) end)
      (let ((row (point))
            (line-end (min end (line-end-position)))
            (cells nil)
            (from nil))
        (while (progn (skip-chars-forward "^|\\\\" line-end)
                      (< (point) line-end))
          (if (eq (char-after) ?\\)
              (goto-char (min line-end (+ 2 (point))))
            (when from
              (push (edn-bridge-markdown--cell from (point)) cells))
            (forward-char)
            (setq from (point))))
        (when (and from
                   (string-match-p "[^ \t]" (buffer-substring from line-end)))
          (push (edn-bridge-markdown--cell from line-end) cells))
        (push (cons row (nreverse cells)) rows)
        (goto-char end)
        (when (< line-end end)
          (goto-char (1+ line-end)))))
    (nreverse rows)))

(defun edn-bridge-markdown--align (cell)
  "Return how the column with CELL in the second line is aligned."
  (let* ((text (string-trim (buffer-substring-no-properties
                             (nth 0 cell) (nth 1 cell))))
         (left (string-prefix-p ":" text))
         (right (string-suffix-p ":" text)))
    (cond ((and left right) 'center)
          (right 'right)
          (t 'left))))

(defun edn-bridge-markdown--cell (from to)
  "Return the cell between FROM and TO.
That is a list of both, of how wide it is shown, and of how wide that is
where its markup is hidden."
  (let* ((shown (string-width (buffer-substring from to)))
         (hidden shown)
         (place (text-property-not-all from to 'invisible nil)))
    (while place
      (let ((end (next-single-property-change place 'invisible nil to)))
        (setq hidden (- hidden (string-width (buffer-substring place end)))
              place (and (< end to)
                         (text-property-not-all end to 'invisible nil)))))
    (list from to shown hidden)))

(defun edn-bridge-markdown--cell-text (cell hidden &optional trimmed)
  "Return the text of CELL, with its faces; with HIDDEN, without its markup.
TRIMMED non-nil means without the blanks around it."
  (let ((place (nth 0 cell))
        (end (nth 1 cell))
        (parts nil))
    (when trimmed
      (setq place (save-excursion (goto-char place)
                                  (skip-chars-forward " \t" end)
                                  (point))
            end (save-excursion (goto-char end)
                                (skip-chars-backward " \t" place)
                                (point))))
    (while (< place end)
      (let ((next (next-single-property-change place 'invisible nil end)))
        (unless (and hidden (get-text-property place 'invisible))
          (push (buffer-substring place next) parts))
        (setq place next)))
    (let ((text (apply #'concat (nreverse parts))))
      (remove-list-of-text-properties 0 (length text) '(invisible display)
                                      text)
      text)))

(defsubst edn-bridge-markdown--cell-width (cell hidden)
  "Return how wide CELL is shown; with HIDDEN, without its markup."
  (nth (if hidden 3 2) cell))

(defun edn-bridge-markdown--widths (rows hidden)
  "Return the widths of the columns of ROWS, with HIDDEN without their markup."
  (let ((widths nil))
    (dolist (row rows)
      (let ((rest widths))
        (dolist (cell (cdr row))
          (let ((width (edn-bridge-markdown--cell-width cell hidden)))
            (if (null rest)
                (setq widths (append widths (list width)))
              (setcar rest (max width (car rest)))
              (setq rest (cdr rest)))))))
    widths))

(defun edn-bridge-markdown--drawn-rule (widths)
  "Return a rule over columns of WIDTHS, or nil where those are."
  (and widths
       (propertize (concat "├"
                           (mapconcat (lambda (width) (make-string width ?─))
                                      widths "┼")
                           "┤")
                   'face 'edn-bridge-markdown-markup)))

(defun edn-bridge-markdown--bar-places (cells)
  "Return where the bars of a row with CELLS are."
  (let ((last (nth 1 (car (last cells)))))
    (append (mapcar (lambda (cell) (1- (car cell))) cells)
            (and last (eq (char-after last) ?|) (list last)))))

(defun edn-bridge-markdown--bars (cells widths aligns hidden)
  "Return what is displayed for the bars beside CELLS, or nils without WIDTHS.
The cells get columns of WIDTHS and are aligned by ALIGNS.  HIDDEN non-nil
means where the markup is hidden."
  (let ((before 0)
        (bars nil))
    (dolist (cell cells)
      (let* ((room (and widths
                        (max 0 (- (pop widths)
                                  (edn-bridge-markdown--cell-width
                                   cell hidden)))))
             (left (pcase (pop aligns)
                     ('right room)
                     ('center (and room (/ room 2)))
                     (_ 0))))
        (push (and room (edn-bridge-markdown--bar before left)) bars)
        (setq before (if room (- room left) 0))))
    (nreverse (cons (and (car bars) (edn-bridge-markdown--bar before 0))
                    bars))))

(defun edn-bridge-markdown--bar (before after)
  "Return a bar with BEFORE and AFTER columns beside it."
  (let ((key (+ (* 10000 before) after)))
    (or (gethash key edn-bridge-markdown--drawn)
        (puthash key
                 (propertize (concat (make-string before ?\s) "│"
                                     (make-string after ?\s))
                             'face 'edn-bridge-markdown-table)
                 edn-bridge-markdown--drawn))))

(provide 'edn-bridge-markdown-table)

;;; edn-bridge-markdown-table.el ends here
