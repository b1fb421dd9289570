;;; edn-bridge-markdown.el --- Faces for markdown as it streams in  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Puts faces on markdown that is inserted bit by bit.  Each line is looked
;; at once when it is complete; the last, unfinished line is looked at again
;; only while it is short and only when something that could matter came.
;; So the cost of a bit is that of the bit, whatever stands before it.
;;
;; What a line has in it is edn-bridge-markdown-inline.el's, a table's
;; columns are edn-bridge-markdown-table.el's, and the faces of a code block
;; edn-bridge-markdown-code.el's.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-transcript)
(require 'edn-bridge-markdown-inline)
(require 'edn-bridge-markdown-table)
(require 'edn-bridge-markdown-code)

;;;; Public API

(cl-defstruct (edn-bridge-markdown (:constructor edn-bridge-markdown--make)
                                   (:copier nil))
  "A piece of markdown that is being inserted."
  (line nil :documentation "Marker at the start of the unfinished line.")
  (fence nil :documentation "Fence of the open code block, a string, or nil.")
  (language nil :documentation "Language of the open code block, or nil.")
  (block nil :documentation "Marker at the first line of the open code block.")
  (table nil :documentation "Marker at the first line of the open table, or nil.")
  (seen nil :documentation "Non-nil if the unfinished line has faces already.")
  (fences 0 :documentation "How many fences the piece has so far.")
  (cells 0 :documentation "How many cells the tables of the piece have so far.")
  (size 0 :documentation "How many characters the piece has so far."))

(defconst edn-bridge-markdown--piece-limit 40000
  "How much of one piece of markdown, in characters, gets faces at once.
The rest gets them when Emacs is idle.")

(defconst edn-bridge-markdown--idle-size 8000
  "How many characters get faces at a time when Emacs is idle.")

(defun edn-bridge-markdown-begin (position)
  "Return the state of a piece of markdown that begins at POSITION."
  (edn-bridge-markdown--make :line (copy-marker position)))

(defun edn-bridge-markdown-feed (state start end)
  "Put faces on the text between START and END, just added to STATE's piece."
  (let* ((room (- edn-bridge-markdown--piece-limit
                  (edn-bridge-markdown-size state)))
         (end (min end (+ start (max 0 room))))
         ;; Who wants to know of a change was told of the text itself.
         (inhibit-modification-hooks t)
         ;; A new piece has no field yet, unlike what stands before it: a
         ;; line would end where it begins.
         (inhibit-field-text-motion t)
         (fresh start))
    (setf (edn-bridge-markdown-size state)
          (+ (edn-bridge-markdown-size state) (- end start)))
    (goto-char start)
    (while (search-forward "\n" end t)
      (let ((next (point)))
        (edn-bridge-markdown--line state
                                   (edn-bridge-markdown-line state) (1- next)
                                   next)
        (set-marker (edn-bridge-markdown-line state) next)
        (setf (edn-bridge-markdown-seen state) nil)
        (goto-char next)
        (when (edn-bridge-markdown-fence state)
          (edn-bridge-markdown--skip-code state end))
        (setq fresh (point))))
    (when (< fresh end)
      (edn-bridge-markdown--unfinished state fresh end))))

(defun edn-bridge-markdown--skip-code (state end)
  "Put faces on the complete lines from point on that are code, before END.
Point, where STATE's unfinished line begins, moves to the first line that
may close the block."
  (let* ((from (point))
         (last (save-excursion (goto-char end) (line-beginning-position)))
         (to (if (and (< from last)
                      (re-search-forward "^[ \t]*\\(?:```\\|~~~\\)" last t))
                 (line-beginning-position)
               last)))
    (when (< from to)
      (edn-bridge-markdown--face from to 'edn-bridge-markdown-block)
      (set-marker (edn-bridge-markdown-line state) to))
    (goto-char (max from to))))

(defun edn-bridge-markdown-finish (state end)
  "Put faces on what is left of STATE's piece, which ends at END.
What is long gets them when Emacs is idle."
  (if (and (< (edn-bridge-markdown-line state) end)
           (>= (edn-bridge-markdown-size state)
               edn-bridge-markdown--piece-limit))
      (edn-bridge-markdown-code-queue
       (marker-position (edn-bridge-markdown-line state)) end
       (list #'edn-bridge-markdown--feed-idle state))
    (edn-bridge-markdown--finish state end)))

(defun edn-bridge-markdown--feed-idle (start end _deadline state)
  "Put faces on some lines between START and END, the rest of STATE's piece.
Return non-nil once there are no more."
  (let ((to (save-excursion
              (goto-char (min end (+ start edn-bridge-markdown--idle-size)))
              (if (search-forward "\n" end t) (point) end))))
    (with-silent-modifications
      ;; Code blocks in it are queued by the same property.
      (remove-text-properties start to '(edn-bridge-markdown-language nil))
      (setf (edn-bridge-markdown-size state) 0)
      (save-excursion
        (edn-bridge-markdown-feed state start to)
        (when (= to end)
          (edn-bridge-markdown--finish state end))))
    ;; The text that is left keeps the property; that of code was added.
    nil))

(defun edn-bridge-markdown--finish (state end)
  "Put faces on the last line of STATE's piece, which ends at END."
  (let ((inhibit-field-text-motion t))
    (when (< (edn-bridge-markdown-line state) end)
      (edn-bridge-markdown--line state (edn-bridge-markdown-line state) end))
    (when (and (edn-bridge-markdown-block state)
               (< (edn-bridge-markdown-block state) end))
      (edn-bridge-markdown--close-block state end))
    (edn-bridge-markdown--close-table state end)
    (set-marker (edn-bridge-markdown-line state) nil)))

(defun edn-bridge-markdown-region (start end)
  "Put faces on the complete piece of markdown between START and END."
  (save-excursion
    (let ((state (edn-bridge-markdown-begin start)))
      (edn-bridge-markdown-feed state start end)
      (edn-bridge-markdown-finish state end))))

;;;; Lines

(defconst edn-bridge-markdown--properties
  '(face edn-bridge-markdown-target edn-bridge-markdown-image help-echo
         mouse-face keymap invisible)
  "Properties that the text of an unfinished line may get.")

(defconst edn-bridge-markdown--line-limit 2000
  "Longest line, in characters, that is searched for markup within it.")

(defconst edn-bridge-markdown--fence "[ \t]*\\(```+\\|~~~+\\)[ \t]*\\([^ \t\n`]*\\)"
  "Matches the line that opens or closes a code block.")

(defconst edn-bridge-markdown--fence-limit 400
  "How many fences of one piece of markdown are hidden.
Each costs time whenever a line behind it is shown.")

(defun edn-bridge-markdown--few-fences-p (state)
  "Count a fence of STATE's piece; return non-nil while there are few."
  (<= (cl-incf (edn-bridge-markdown-fences state))
      edn-bridge-markdown--fence-limit))

(defun edn-bridge-markdown--line (state start end &optional next)
  "Put faces on the complete line between START and END of STATE's piece.
NEXT is where the next line of the piece begins, or nil if this is the last."
  (goto-char start)
  (skip-chars-forward " \t" end)
  (cond
   ((edn-bridge-markdown-fence state)
    (goto-char start)
    (if (and (looking-at edn-bridge-markdown--fence)
             (string-prefix-p (edn-bridge-markdown-fence state)
                              (match-string-no-properties 1))
             (= (match-beginning 2) (match-end 2)))
        (progn
          (edn-bridge-markdown--close-block state start)
          (edn-bridge-markdown--face start end 'edn-bridge-markdown-markup)
          (when (edn-bridge-markdown--few-fences-p state)
            (edn-bridge-markdown--hide start (or next end))))
      (edn-bridge-markdown--face start (or next end)
                                 'edn-bridge-markdown-block)))
   ;; What a line begins with is asked first: most lines are prose.
   ((and (memq (char-after) '(?` ?~))
         (progn (goto-char start)
                (looking-at edn-bridge-markdown--fence)))
    (edn-bridge-markdown--close-table state start)
    (when (< end (point-max))
      (add-text-properties start end
                           (list 'keymap edn-bridge-markdown-fence-map
                                 'mouse-face 'highlight
                                 'help-echo "RET, mouse-2: copy this code")))
    (cond ((not (edn-bridge-markdown--few-fences-p state)))
          ((= (match-beginning 2) (match-end 2))
           (edn-bridge-markdown--display (match-beginning 1) (match-end 1)
                                         "code"))
          (t
           (edn-bridge-markdown--hide start (match-beginning 2))))
    (setf (edn-bridge-markdown-fence state) (match-string-no-properties 1)
          (edn-bridge-markdown-language state) (match-string-no-properties 2)
          (edn-bridge-markdown-block state)
          (copy-marker (min (1+ end) (point-max))))
    (edn-bridge-markdown--face start end 'edn-bridge-markdown-language))
   ((and (eq (char-after) ?|) (< (point) end))
    (unless (edn-bridge-markdown-table state)
      (setf (edn-bridge-markdown-table state) (copy-marker start)))
    (edn-bridge-markdown--prose start end (edn-bridge-markdown-seen state)))
   (t
    (when (edn-bridge-markdown-table state)
      (edn-bridge-markdown--close-table state start))
    (edn-bridge-markdown--prose start end (edn-bridge-markdown-seen state))
    (edn-bridge-markdown--adorn start end))))

(defconst edn-bridge-markdown--signs
  `((bullet (when edn-bridge-markdown-hidden . "•"))
    (quote (when edn-bridge-markdown-hidden . "▌"))
    (open (when edn-bridge-markdown-hidden . "☐"))
    (done (when edn-bridge-markdown-hidden . "☑"))
    (rule (when edn-bridge-markdown-hidden
            . ,(propertize (make-string 40 ?─) 'face 'edn-bridge-muted))))
  "What is displayed, where markup is hidden, for signs that begin a line.")

(defun edn-bridge-markdown--adorn (start end)
  "Have the line of prose between START and END begin with better signs.
It is complete: what is displayed so is not looked at again."
  (goto-char start)
  (skip-chars-forward " \t" end)
  (let* ((from (point))
         (sign (and (< from end) (char-after)))
         (next (and sign (char-after (1+ from)))))
    (cond
     ((eq sign ?>)
      (edn-bridge-markdown--sign from (1+ from) 'quote))
     ((and (memq sign '(?- ?* ?+)) (memq next '(?\s ?\t)))
      (goto-char (+ from 2))
      (if (not (and (eq (char-after) ?\[)
                    (looking-at "\\[\\([ xX]\\)\\][ \t]")))
          (edn-bridge-markdown--sign from (1+ from) 'bullet)
        (edn-bridge-markdown--sign
         from (1- (match-end 0))
         (if (eq (char-after (match-beginning 1)) ?\s) 'open 'done))))
     ((and (memq sign '(?- ?* ?_)) (eq sign next)
           (looking-at "\\(?:-\\{3,\\}\\|\\*\\{3,\\}\\|_\\{3,\\}\\)[ \t]*$"))
      (edn-bridge-markdown--sign from (match-end 0) 'rule)))))

(defun edn-bridge-markdown--sign (start end sign)
  "Have SIGN of `edn-bridge-markdown--signs' shown from START to END."
  (put-text-property start end 'display
                     (cadr (assq sign edn-bridge-markdown--signs))))

(defun edn-bridge-markdown--prose (start end &optional seen)
  "Put faces on the line of prose between START and END.
SEEN non-nil means that it may have some of an earlier look at it."
  (when seen
    (remove-list-of-text-properties start end edn-bridge-markdown--properties))
  (goto-char start)
  (skip-chars-forward " \t" end)
  (let ((sign (and (< (point) end) (char-after))))
    (cond
     ((null sign))
     ((eq sign ?#)
      (when (and (= (point) start)
                 (looking-at "#\\{1,6\\}[ \t]+"))
        (edn-bridge-markdown--face start end 'edn-bridge-markdown-heading)
        (edn-bridge-markdown--hide start (min end (match-end 0)))))
     ((eq sign ?>)
      (edn-bridge-markdown--face start end 'edn-bridge-markdown-quote))
     ((eq sign ?|)
      (edn-bridge-markdown--face start end 'edn-bridge-markdown-table))
     ((and (or (memq sign '(?- ?* ?+)) (<= ?0 sign ?9))
           (looking-at "\\(?:[-*+]\\|[0-9]+[.)]\\)[ \t]"))
      (edn-bridge-markdown--face start (match-end 0)
                                 'edn-bridge-markdown-markup)
      (goto-char (match-end 0)))))
  (when (<= (- end start) edn-bridge-markdown--line-limit)
    (edn-bridge-markdown--inline (point) end)))

(defun edn-bridge-markdown--unfinished (state fresh end)
  "Put faces on STATE's unfinished line, whose text from FRESH to END is new."
  (let ((start (edn-bridge-markdown-line state)))
    (cond
     ((edn-bridge-markdown-fence state)
      (edn-bridge-markdown--face fresh end 'edn-bridge-markdown-block))
     ((and (<= (- end start) edn-bridge-markdown--line-limit)
           (progn (goto-char fresh)
                  (skip-chars-forward "^*_`)#>~|" end)
                  (< (point) end))
           (progn (goto-char start)
                  (not (looking-at-p edn-bridge-markdown--fence))))
      (edn-bridge-markdown--prose (marker-position start) end
                                  (edn-bridge-markdown-seen state))
      (setf (edn-bridge-markdown-seen state) t)))))

;;;; Where blocks end

(defconst edn-bridge-markdown--cell-limit 4000
  "How many cells of one piece of markdown are laid out.
Each takes its time, however small it is.")

(defun edn-bridge-markdown--room-p (state start end)
  "Count the cells between START and END; return non-nil if STATE has room."
  (<= (cl-incf (edn-bridge-markdown-cells state)
               (save-excursion
                 (save-match-data (how-many "|" start end))))
      edn-bridge-markdown--cell-limit))

(defun edn-bridge-markdown--close-table (state end)
  "Lay out the table of STATE, if one is open; it ends before END."
  (when-let ((table (edn-bridge-markdown-table state)))
    (let ((start (marker-position table)))
      (set-marker table nil)
      (setf (edn-bridge-markdown-table state) nil)
      (when (and (< start end (+ start edn-bridge-markdown--table-limit))
                 (edn-bridge-markdown--room-p state start end))
        (save-excursion
          (goto-char start)
          (forward-line)
          (when (and (< (point) end)
                     (looking-at-p edn-bridge-markdown--table-rule))
            (edn-bridge-markdown--lay-out start end)))))))

(defun edn-bridge-markdown--close-block (state end)
  "Close the code block of STATE before END."
  (let ((start (marker-position (edn-bridge-markdown-block state)))
        (language (edn-bridge-markdown-language state)))
    (set-marker (edn-bridge-markdown-block state) nil)
    (setf (edn-bridge-markdown-fence state) nil
          (edn-bridge-markdown-language state) nil
          (edn-bridge-markdown-block state) nil)
    (edn-bridge-markdown-code-add start end language)))

(provide 'edn-bridge-markdown)

;;; edn-bridge-markdown.el ends here
