;;; edn-bridge-markdown-table.el --- Tables in markdown  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The columns of a table are laid out by `display' properties on its bars,
;; once its last line is there; what is copied is the text that came.  A table
;; follows the width of its window.  Where one is too wide, a key shows it in
;; a buffer of its own.
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

(defun edn-bridge-markdown--lay-out (start end &optional made)
  "Lay out the columns of the table between START and END.
They are as wide as what is displayed, which is less where the markup is
hidden.  MADE non-nil means that it was laid out before, for another width.
What it was laid out for stands at its start: how wide it is shown, how wide
without its markup, the width that it was laid out for, and its length."
  (let* ((rows (edn-bridge-markdown--rows start end))
         (rule (nth 1 rows))
         (body (cons (car rows) (nthcdr 2 rows)))
         (aligns (mapcar #'edn-bridge-markdown--align (cdr rule)))
         (shown (edn-bridge-markdown--widths body nil))
         (hidden (edn-bridge-markdown--widths body t))
         (table (list (apply #'+ (length shown) shown)
                      (apply #'+ (length hidden) hidden)
                      (edn-bridge-markdown--table-width)
                      (- end start)))
         (shown (and (edn-bridge-markdown--fits-p (nth 0 table)) shown))
         (hidden (and (edn-bridge-markdown--fits-p (nth 1 table)) hidden)))
    (put-text-property start (1+ start) 'edn-bridge-markdown-fitted table)
    (unless made
      (add-face-text-property (caar rows) (caadr rows)
                              'edn-bridge-markdown-table-heading))
    (edn-bridge-markdown--offer-table start end (not hidden))
    (when (or made shown hidden)
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
                                              (pop bars)))))))))

(defvar edn-bridge-markdown-table-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-markdown-view-table)
    (define-key map [mouse-2] #'edn-bridge-markdown-view-table)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the first lines of tables that are too wide for their window.")

(defun edn-bridge-markdown--offer-table (start end wide)
  "Have a key show the table between START and END, if it is too WIDE.
That is in a buffer of its own."
  (let ((line-end (save-excursion (goto-char start) (line-end-position))))
    (cond (wide
           (put-text-property start end 'edn-bridge-markdown-table t)
           (add-text-properties
            start line-end
            (list 'keymap edn-bridge-markdown-table-map
                  'mouse-face 'highlight
                  'help-echo
                  "RET, mouse-2: show this table in a buffer of its own")))
          ((get-text-property start 'edn-bridge-markdown-table)
           (remove-list-of-text-properties start end
                                           '(edn-bridge-markdown-table))
           (remove-list-of-text-properties start line-end
                                           '(keymap mouse-face help-echo))))))

(defun edn-bridge-markdown-fit-table (start table)
  "Lay out TABLE, which begins at START, for the width of its window.
TABLE is what `edn-bridge-markdown--lay-out' noted of it.  It is laid out
anew only where it fits now and did not fit, or the other way round."
  (let ((width (edn-bridge-markdown--table-width)))
    (unless (= width (nth 2 table))
      (if (seq-some (lambda (needed)
                      (not (eq (<= needed width) (<= needed (nth 2 table)))))
                    (list (nth 0 table) (nth 1 table)))
          (with-silent-modifications
            (save-excursion
              (edn-bridge-markdown--lay-out start (+ start (nth 3 table)) t)))
        (setf (nth 2 table) width)))))

(setf (alist-get 'edn-bridge-markdown-fitted edn-bridge-transcript-fitted)
      #'edn-bridge-markdown-fit-table)

(defvar edn-bridge-markdown--any-width nil
  "Non-nil while tables may be wider than their window.")

(defun edn-bridge-markdown-view-table (&optional event)
  "Show the table at point, or where the mouse EVENT was, in a buffer of its own.
Its lines are as long as they must be there."
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
      (edn-bridge-page-mode)
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
      (pop-to-buffer (current-buffer)))))

(defun edn-bridge-markdown--fits-p (needed)
  "Return non-nil if a table that is NEEDED columns wide fits in its window."
  (or edn-bridge-markdown--any-width
      (<= needed (edn-bridge-markdown--table-width))))

(defun edn-bridge-markdown--table-width ()
  "Return how wide a table may be: as the window, where there is one."
  (let ((window (get-buffer-window nil t)))
    (if window (max 20 (- (window-width window) 2)) 100)))

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
