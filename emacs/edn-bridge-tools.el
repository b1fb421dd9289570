;;; edn-bridge-tools.el --- Tool calls in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A tool call is one line of the transcript: its name, what it does, how
;; it went.  Its output is in the buffer only while the line is unfolded,
;; so that what nobody looks at costs nothing.
;;
;; What an output or a diff looks like is in edn-bridge-tools-output.el.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-constants)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-tools-output)

;;;; Options

(defcustom edn-bridge-tools-unfold edn-bridge-constants-diff-tools
  "Names of the tools whose output is shown when they are done.
The output of others is shown on demand."
  :type '(repeat string)
  :group 'edn-bridge)

;;;; The calls of a chat

(cl-defstruct (edn-bridge-tools--call (:copier nil))
  "A tool call of the session."
  id name summary arguments text details
  answer                  ; how it was answered when it was asked about, or nil
  (state 'proposed)       ; `proposed', `running', `done' or `failed'
  elapsed                 ; seconds that it ran, or nil
  marker                  ; at its line, while that may still change
  shown                   ; non-nil once it has a line
  width                   ; of the window that the line was made for
  open)                   ; non-nil if unfolded

(defvar-local edn-bridge-tools--calls nil
  "Hash table of the tool calls of this chat, by id.")

(defun edn-bridge-tools--calls ()
  "Return the hash table of the tool calls of this chat."
  (or edn-bridge-tools--calls
      (setq edn-bridge-tools--calls (make-hash-table :test #'equal))))

(defun edn-bridge-tools--get (id)
  "Return the tool call ID of this chat, or nil."
  (gethash id (edn-bridge-tools--calls)))

(defun edn-bridge-tools-path (id)
  "Return the file that the arguments of the tool call ID name, or nil."
  (when-let ((call (and id (edn-bridge-tools--get id))))
    (let* ((arguments (edn-bridge-tools--call-arguments call))
           (path (and (consp arguments) (plist-get arguments :path))))
      (and (stringp path) path))))

(defun edn-bridge-tools-argument (id key)
  "Return the argument KEY of the tool call ID, or nil."
  (when-let ((call (and id (edn-bridge-tools--get id))))
    (plist-get (edn-bridge-tools--arguments call) key)))

(defun edn-bridge-tools--note (data)
  "Take what DATA, of a tool event, says of its call; return the call."
  (let* ((id (plist-get data :tool-id))
         (call (or (edn-bridge-tools--get id)
                   (puthash id (make-edn-bridge-tools--call :id id)
                            (edn-bridge-tools--calls)))))
    (when-let ((name (plist-get data :tool-name)))
      (setf (edn-bridge-tools--call-name call) name))
    (when-let ((summary (plist-get data :call-summary)))
      ;; The name alone says that the bridge has not seen the call, whose
      ;; arguments may be in an earlier page; empty arguments, that they
      ;; are still to come.
      (let ((name (edn-bridge-tools--call-name call)))
        (unless (member summary (list name (concat name " {}")))
          (setf (edn-bridge-tools--call-summary call) summary))))
    (when-let ((arguments (or (plist-get data :parsed-args)
                              (plist-get data :arguments))))
      (setf (edn-bridge-tools--call-arguments call) arguments))
    (when (plist-member data :result-text)
      (setf (edn-bridge-tools--call-text call) (plist-get data :result-text)))
    (when-let ((details (plist-get data :details)))
      (setf (edn-bridge-tools--call-details call) details))
    (when-let ((duration (plist-get data :duration-ms)))
      (setf (edn-bridge-tools--call-elapsed call) (/ duration 1000.0)))
    call))

(defun edn-bridge-tools-known-p (id)
  "Return non-nil if the tool call ID is shown."
  (and (edn-bridge-tools--get id) t))

(defun edn-bridge-tools-done-p (id)
  "Return non-nil if the result of the tool call ID is shown."
  (let ((call (edn-bridge-tools--get id)))
    (and call (memq (edn-bridge-tools--call-state call) '(done failed)) t)))

(defun edn-bridge-tools-unfinished-p ()
  "Return non-nil if a call is shown that has no result."
  (let ((found nil))
    (maphash (lambda (_id call)
               (when (and (edn-bridge-tools--call-marker call)
                          (memq (edn-bridge-tools--call-state call)
                                '(proposed running)))
                 (setq found t)))
             (edn-bridge-tools--calls))
    found))

(defun edn-bridge-tools--finish (call failed)
  "Note that CALL is done, or with FAILED non-nil that it failed.
The output of some tools is shown then."
  (setf (edn-bridge-tools--call-state call) (if failed 'failed 'done))
  (when (and (member (edn-bridge-tools--call-name call)
                     edn-bridge-tools-unfold)
             (not (edn-bridge-tools--rejected-p call)))
    (setf (edn-bridge-tools--call-open call) t)))

(defun edn-bridge-tools--forget-id (id)
  "Let ID be another call's; the one that had it keeps its line."
  (remhash id (edn-bridge-tools--calls)))

;;;; Events

(defun edn-bridge-tools--on-start (data)
  "Show the tool call that DATA of `tool/start' proposes."
  (when (edn-bridge-chat-mine-p data)
    ;; Not every provider has ids that are never used again.
    (let ((old (edn-bridge-tools--get (plist-get data :tool-id))))
      (when (and old (memq (edn-bridge-tools--call-state old) '(done failed)))
        (edn-bridge-tools--forget-id (plist-get data :tool-id))))
    (let ((call (edn-bridge-tools--note data)))
      (unless (edn-bridge-tools--call-marker call)
        (edn-bridge-tools--insert call)))))

(defun edn-bridge-tools--on-executing (data)
  "Show that the tool call of DATA of `tool/executing' runs."
  (when (edn-bridge-chat-mine-p data)
    (let ((call (edn-bridge-tools--note data)))
      (setf (edn-bridge-tools--call-state call) 'running
            (alist-get (edn-bridge-tools--call-id call)
                       edn-bridge-chat-working nil nil #'equal)
            (cons (edn-bridge-tools--call-name call) (float-time)))
      (if (edn-bridge-tools--call-marker call)
          (edn-bridge-tools--redraw call)
        (edn-bridge-tools--insert call)))))

(defun edn-bridge-tools--on-update (data)
  "Show what DATA of `tool/update' says of a running tool call."
  (when (edn-bridge-chat-mine-p data)
    (let ((call (edn-bridge-tools--note data)))
      ;; Of what is folded nothing would change.
      (when (and (edn-bridge-tools--call-marker call)
                 (edn-bridge-tools--call-open call))
        (edn-bridge-tools--redraw call)))))

(defun edn-bridge-tools--on-result (data)
  "Show how the tool call of DATA of `tool/result' went."
  (when (edn-bridge-chat-mine-p data)
    (let ((call (edn-bridge-tools--note data)))
      (edn-bridge-tools--finish
       call (edn-bridge-edn-true-p (plist-get data :is-error)))
      (setf (alist-get (edn-bridge-tools--call-id call)
                       edn-bridge-chat-working nil 'remove #'equal)
            nil)
      (if (edn-bridge-tools--call-marker call)
          (edn-bridge-tools--redraw call)
        (edn-bridge-tools--insert call))
      (edn-bridge-tools--settle call))))

(defun edn-bridge-tools--on-message (data)
  "Note the arguments of the calls in DATA of `assistant/message'.
A call is told of as soon as the model begins to write it, and what it is
asked about may stand in its arguments alone."
  (let ((content (plist-get data :content)))
    (when (and (vectorp content) (edn-bridge-chat-mine-p data))
      (seq-do (lambda (block)
                (when (eq (plist-get block :type) :tool-call)
                  (let ((call (edn-bridge-tools--get (plist-get block :id))))
                    (when (and call (edn-bridge-tools--call-marker call))
                      (setf (edn-bridge-tools--call-arguments call)
                            (plist-get block :arguments))))))
              content)
      (edn-bridge-tools--drop-unwritten content))))

(defun edn-bridge-tools--on-retry (data)
  "Delete the calls of an answer that DATA of `turn/retry' drops."
  (when (and (edn-bridge-chat-mine-p data)
             (edn-bridge-edn-true-p (plist-get data :discarded)))
    (edn-bridge-tools--drop-unwritten [])
    (edn-bridge-messages-trim-end)))

(defun edn-bridge-tools--drop-unwritten (content)
  "Delete the lines of proposed calls that are not in CONTENT, an answer's.
Where the answer was cut while the model wrote a call, there is no such call."
  (let (gone)
    (maphash
     (lambda (id call)
       (when (and (edn-bridge-tools--call-marker call)
                  (eq (edn-bridge-tools--call-state call) 'proposed)
                  (not (seq-find (lambda (block)
                                   (equal (plist-get block :id) id))
                                 content)))
         (push call gone)))
     (edn-bridge-tools--calls))
    (dolist (call gone)
      (let ((start (marker-position (edn-bridge-tools--call-marker call))))
        (edn-bridge-transcript-edit
          (goto-char start)
          (delete-region start (edn-bridge-tools--end start))
          ;; What stands below began with an empty line, as this may have.
          (when (and (< (point) (edn-bridge-transcript-end))
                     (eq (char-after) ?\n)
                     (memq (char-before (max (1- (point)) (point-min)))
                           '(nil ?\n)))
            (delete-char 1))))
      (edn-bridge-tools--settle call)
      (edn-bridge-tools--forget-id (edn-bridge-tools--call-id call)))))

(defun edn-bridge-tools--settle (call)
  "Let go of the marker of CALL, whose line will not change by itself.
A marker that is kept would make every later insertion slower."
  (when-let ((marker (edn-bridge-tools--call-marker call)))
    (set-marker marker nil)
    (setf (edn-bridge-tools--call-marker call) nil)))

(defun edn-bridge-tools--on-rebuild (data)
  "Forget all calls except those in DATA, which will be shown."
  (clrhash (edn-bridge-tools--calls))
  (cl-loop for (_id result) on (plist-get data :tool-calls) by #'cddr
           when (plist-get result :tool-id)
           do (edn-bridge-tools--finish
               (edn-bridge-tools--note result)
               (edn-bridge-edn-true-p (plist-get result :is-error)))))

(defun edn-bridge-tools--show-block (block _message)
  "Show BLOCK, a tool call in a message of the journal.
What is known of it otherwise is from the map of results, which has only
the last call of each id."
  (let* ((id (plist-get block :id))
         (known (edn-bridge-tools--get id)))
    (when (and known (edn-bridge-tools--call-shown known))
      (edn-bridge-tools--forget-id id))
    (edn-bridge-tools--insert
     (edn-bridge-tools--note
      (list :tool-id id
            :tool-name (plist-get block :name)
            :parsed-args (plist-get block :arguments))))))

(defun edn-bridge-tools--show-message (message _message)
  "Show the result that MESSAGE of the journal holds."
  (when-let ((call (edn-bridge-tools--get (plist-get message :tool-call-id))))
    (setf (edn-bridge-tools--call-text call)
          (edn-bridge-messages-text message))
    (edn-bridge-tools--note
     (list :tool-id (plist-get message :tool-call-id)
           :details (plist-get message :details)
           :duration-ms (plist-get message :duration-ms)))
    (edn-bridge-tools--finish
     call (edn-bridge-edn-true-p (plist-get message :is-error)))
    (when (edn-bridge-tools--call-marker call)
      (edn-bridge-tools--redraw call)
      (edn-bridge-tools--settle call))))

(defun edn-bridge-tools--on-rebuilt ()
  "Let go of the markers of calls whose results are known."
  (maphash (lambda (_id call)
             (when (memq (edn-bridge-tools--call-state call) '(done failed))
               (edn-bridge-tools--settle call)))
           (edn-bridge-tools--calls)))

;;;; The line of a call

(defvar edn-bridge-tools-line-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-tools-toggle)
    (define-key map (kbd "TAB") #'edn-bridge-tools-toggle)
    (define-key map [mouse-1] #'edn-bridge-tools-toggle-at-mouse)
    map)
  "Keymap on the lines of tool calls.")

(defun edn-bridge-tools--insert (call)
  "Add the line of CALL to the transcript."
  (edn-bridge-chat-settle 'end)
  (edn-bridge-transcript-add
    (unless (get-text-property (max (point-min) (1- (point))) 'edn-bridge-tool)
      (edn-bridge-chat-insert-answer-heading))
    (setf (edn-bridge-tools--call-marker call) (copy-marker (point))
          (edn-bridge-tools--call-shown call) t)
    (edn-bridge-tools--insert-lines call)))

(defun edn-bridge-tools--redraw (call)
  "Write the line of CALL, which is in the transcript, again."
  (edn-bridge-transcript-edit
    (let* ((start (marker-position (edn-bridge-tools--call-marker call)))
           (end (edn-bridge-tools--end start)))
      ;; The new text goes before the old: the end of the transcript, which
      ;; may be the end of the old text, then stays behind both.
      (goto-char start)
      (edn-bridge-tools--insert-lines call)
      (edn-bridge-transcript-protect start (point))
      (set-marker (edn-bridge-tools--call-marker call) start)
      (delete-region (point) (+ (point) (- end start))))))

(defun edn-bridge-tools--end (start)
  "Return the end of the text of the call whose line begins at START."
  (next-single-property-change start 'edn-bridge-tool nil
                               (edn-bridge-transcript-end)))

(defun edn-bridge-tools--insert-lines (call)
  "Insert the line of CALL and, where it is unfolded, its output."
  (let ((start (point)))
    (insert (edn-bridge-tools--line call))
    (add-text-properties start (1- (point))
                         (list 'keymap edn-bridge-tools-line-map
                               'mouse-face 'highlight
                               'help-echo "RET, TAB: fold or unfold"))
    (when (edn-bridge-tools--call-open call)
      (edn-bridge-tools--insert-body call))
    (put-text-property start (point) 'edn-bridge-tool call)))

(defun edn-bridge-tools--line (call)
  "Return the line of CALL, newline included."
  (let* ((name (edn-bridge-visible-label
                (or (edn-bridge-tools--call-name call) "tool")))
         (state (edn-bridge-tools--state call))
         (columns (setf (edn-bridge-tools--call-width call)
                        (edn-bridge-tools-width)))
         (width (max 20 (- (min 160 columns)
                           (string-width state) (max 8 (string-width name)) 6)))
         (summary (truncate-string-to-width
                   (edn-bridge-visible-label
                    (replace-regexp-in-string
                     "[ \t\n\r]+" " " (edn-bridge-tools--summary call)))
                   width nil nil "…")))
    ;; The columns are given in columns of the default font, so that they
    ;; hold with proportional fonts and with characters of any width.
    (concat (propertize (concat (edn-bridge-tools--indicator call) " ")
                        'face 'edn-bridge-tools-state)
            (propertize (concat name (make-string
                                      (max 0 (- 8 (string-width name))) ?\s))
                        'face 'edn-bridge-tools-name)
            (propertize " " 'display
                        `(space :align-to ,(+ 3 (max 8 (string-width name)))))
            ;; A summary that is written from right to left must not turn
            ;; around what stands beside it.
            (propertize (bidi-string-mark-left-to-right summary)
                        'face 'edn-bridge-tools-summary)
            (propertize " " 'display
                        `(space :align-to (- right ,(1+ (string-width state)))))
            state
            "\n")))

(defun edn-bridge-tools--indicator (call)
  "Return the sign that says whether CALL is folded."
  (let ((signs (if (char-displayable-p ?▸) '("▾" . "▸") '("v" . ">"))))
    (if (edn-bridge-tools--call-open call)
        (car signs)
      (cdr signs))))

(defun edn-bridge-tools-width ()
  "Return how many columns a line of this chat has."
  (or (edn-bridge-transcript-width) 80))

;;;; Lines follow the width of the window

(defun edn-bridge-tools--fit (start call)
  "Write the line of CALL, which begins at START, for the window's width."
  (unless (eql (edn-bridge-tools-width) (edn-bridge-tools--call-width call))
    (edn-bridge-tools--fit-line start call)))

(defun edn-bridge-tools--fit-line (start call)
  "Write the line of CALL, which begins at START, again.
Points that are on it are at its start then."
  (let* ((end (edn-bridge-tools--end start))
         (live (edn-bridge-tools--call-marker call))
         (here (and (<= start (point)) (< (point) end)))
         (windows (seq-filter (lambda (window)
                                (and (<= start (window-point window))
                                     (< (window-point window) end)))
                              (get-buffer-window-list nil nil t))))
    (unless live
      (setf (edn-bridge-tools--call-marker call) (copy-marker start)))
    (edn-bridge-tools--redraw call)
    (unless live
      (edn-bridge-tools--settle call))
    (when here
      (goto-char start))
    (dolist (window windows)
      (set-window-point window start))))

(setf (alist-get 'edn-bridge-tool edn-bridge-transcript-fitted)
      #'edn-bridge-tools--fit)

(defun edn-bridge-tools--state (call)
  "Return how CALL goes or went, and until it is over what was answered.
A chat that is built from the journal shows the same then."
  (let ((state (edn-bridge-tools--run-state call))
        (answer (edn-bridge-tools--call-answer call)))
    (if (or (not answer)
            (memq (edn-bridge-tools--call-state call) '(done failed)))
        state
      (let ((answer (propertize (truncate-string-to-width answer 30 nil nil "…")
                                'face 'edn-bridge-tools-state
                                'help-echo answer)))
        (if (or (equal state "…") (string-prefix-p "rejected" answer))
            answer
          (concat answer (propertize " · " 'face 'edn-bridge-tools-state)
                  state))))))

(defun edn-bridge-tools--run-state (call)
  "Return how CALL goes or went, in a word and the time that it took."
  (let ((elapsed (edn-bridge-tools--call-elapsed call)))
    (pcase (edn-bridge-tools--call-state call)
      ('proposed (propertize "…" 'face 'edn-bridge-tools-state))
      ('running (propertize "running" 'face 'edn-bridge-tools-state
                            'edn-bridge-tools-running t
                            'display (edn-bridge-tools--seconds call)))
      (state
       (let ((outcome (edn-bridge-tools--outcome call)))
         (propertize (concat outcome
                             (and elapsed
                                  (> elapsed 0.05)
                                  (format " %.1fs" elapsed)))
                     'face (if (and (eq state 'failed)
                                    (not (member outcome
                                                 '("rejected" "stopped"
                                                   "not run"))))
                               'edn-bridge-tools-failed
                             'edn-bridge-tools-state)))))))

(defun edn-bridge-tools--seconds (call)
  "Return what is displayed for the word that CALL runs: its seconds.
Return nil in the first one."
  (let* ((since (cddr (assoc (edn-bridge-tools--call-id call)
                             edn-bridge-chat-working)))
         (seconds (and since (floor (- (float-time) since)))))
    (and seconds
         (> seconds 0)
         ;; As wide as the word, so that nothing moves.
         (propertize (format "%7s" (edn-bridge-chat--duration seconds))
                     'face 'edn-bridge-tools-state))))

(defun edn-bridge-tools--count ()
  "Have the lines of the calls that run count their seconds."
  (pcase-dolist (`(,id . ,_) edn-bridge-chat-working)
    (when-let ((call (edn-bridge-tools--get id))
               (marker (edn-bridge-tools--call-marker call))
               (start (text-property-any marker (edn-bridge-tools--end marker)
                                         'edn-bridge-tools-running t)))
      (with-silent-modifications
        (put-text-property start (next-single-property-change
                                  start 'edn-bridge-tools-running nil
                                  (edn-bridge-transcript-end))
                           'display (edn-bridge-tools--seconds call))))))

(add-hook 'edn-bridge-chat-clock-hook #'edn-bridge-tools--count)

(defconst edn-bridge-tools--endings
  '(("\\`The call was denied\\." . "rejected")
    ("\\`The call was not run: " . "not run")
    ("\\[ended by the user\\]\\'" . "stopped")
    ("\\[exit status \\([0-9]+\\)\\]\\'" . "exit \\1")
    ("\\[ended by signal \\([0-9]+\\)\\]\\'" . "signal \\1")
    ("\\[ended after [0-9]+ seconds\\]\\'" . "timed out"))
  "How the bridge's words in an output tell how the call ended.
An alist of a regexp and what is shown.  The journal has only those words.")

(defun edn-bridge-tools--outcome (call)
  "Return in a word or two how CALL, which is over, went.
What the user rejected or stopped did not fail."
  (let* ((details (edn-bridge-tools--call-details call))
         (details (and (consp details) details))
         (code (edn-bridge-chat-word (plist-get details :code)))
         (status (plist-get details :exit-code)))
    (cond ((edn-bridge-edn-true-p (plist-get details :denied)) "rejected")
          ((and code (string-match-p "abort\\|cancel\\|interrupt" code))
           "stopped")
          ((and (integerp status) (/= status 0)) (format "exit %d" status))
          ((eq (edn-bridge-tools--call-state call) 'failed)
           (or (edn-bridge-tools--ending call) "failed"))
          (t "done"))))

(defun edn-bridge-tools--rejected-p (call)
  "Return non-nil if CALL was not allowed."
  (and (eq (edn-bridge-tools--call-state call) 'failed)
       (equal (edn-bridge-tools--outcome call) "rejected")))

(defun edn-bridge-tools--ending (call)
  "Return how the text of CALL, which failed, says that it ended, or nil."
  (let* ((text (or (edn-bridge-tools--call-text call) ""))
         (length (length text))
         ;; That is where it stands, and the rest may be long.
         (text (if (> length 200)
                   (concat (substring text 0 100) (substring text -100))
                 text)))
    (cl-loop for (regexp . word) in edn-bridge-tools--endings
             when (string-match regexp text)
             return (string-replace "\\1" (or (match-string 1 text) "")
                                    word))))

(defun edn-bridge-tools-summarize (id summary)
  "Have SUMMARY shown of the tool call ID, where that is in this chat.
The call was shown when its arguments had not come yet."
  (let ((call (edn-bridge-tools--get id)))
    (when (and call (stringp summary) (not (equal summary "")))
      (setf (edn-bridge-tools--call-summary call) summary)
      (when (edn-bridge-tools--call-marker call)
        (edn-bridge-tools--redraw call)))))

(defun edn-bridge-tools--past (answer)
  "Return ANSWER, which may be the label of a button, as what was done."
  (cond ((string-prefix-p "Allow" answer)
         (concat "allowed" (substring answer (length "Allow"))))
        ((string-prefix-p "Reject" answer)
         (concat "rejected" (substring answer (length "Reject"))))
        (t answer)))

(defun edn-bridge-tools-note-answer (id answer)
  "Have the line of the tool call ID, or nil, show ANSWER to its question.
Return non-nil if that line can still be written."
  (when-let ((call (and id (edn-bridge-tools--get id))))
    (when (edn-bridge-tools--call-marker call)
      (setf (edn-bridge-tools--call-answer call)
            (edn-bridge-tools--past
             (edn-bridge-visible-label
              (replace-regexp-in-string "[ \t\n]+" " " answer))))
      (edn-bridge-tools--redraw call)
      t)))

(defun edn-bridge-tools--summary (call)
  "Return what CALL does, in a line, without the tool's name."
  (or (and (edn-bridge-tools--call-summary call)
           (string-remove-prefix
            "$ "
            (string-remove-prefix
             (concat (edn-bridge-tools--call-name call) " ")
             (edn-bridge-tools--call-summary call))))
      (let ((arguments (edn-bridge-tools--call-arguments call)))
        (cond ((stringp arguments) arguments)
              ((null arguments) "")
              ((let ((text (cl-some (lambda (key)
                                      (let ((value (plist-get arguments key)))
                                        (and (stringp value) value)))
                                    '(:command :path :pattern :glob :url
                                      :question :task)))
                     (edits (plist-get arguments :edits)))
                 (if (and text (vectorp edits) (> (length edits) 1))
                     (format "%s (%d places)" text (length edits))
                   text)))
              (t (edn-bridge-edn-print-string arguments))))))

;;;; The output of a call

(defvar edn-bridge-tools-body-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'edn-bridge-tools-follow)
    (define-key map (kbd "TAB") #'edn-bridge-tools-toggle)
    map)
  "Keymap on the output of tool calls.")

(defun edn-bridge-tools--insert-body (call)
  "Insert what CALL was asked to do in full, and its output."
  (let* ((start (point))
         (diff (or (edn-bridge-tools-diff (edn-bridge-tools--call-details call))
                   (edn-bridge-tools--diff-of-arguments call)))
         (text (or (edn-bridge-tools--call-text call) ""))
         (command (plist-get (edn-bridge-tools--arguments call) :command)))
    (when (and (stringp command) (string-search "\n" command))
      (insert (propertize (edn-bridge-visible-break command 0)
                          'face 'edn-bridge-tools-summary)
              "\n"))
    (when (and diff (edn-bridge-tools--rejected-p call))
      (insert (propertize (concat "rejected: "
                                  (edn-bridge-visible-label
                                   (string-remove-prefix
                                    "The call was denied. " text)))
                          'face 'edn-bridge-tools-state)
              "\n"))
    (if diff
        (edn-bridge-tools-insert-diff diff)
      (edn-bridge-tools--insert-output text))
    (edn-bridge-tools--add-keymap start (point))
    (edn-bridge-tools-insert-diff-button (edn-bridge-tools--call-details call))
    (edn-bridge-tools--insert-rest-button call)
    (edn-bridge-visible-region start (point) 'strict)
    (put-text-property start (point) 'line-prefix "  ")
    (put-text-property start (point) 'wrap-prefix "  ")))

(defun edn-bridge-tools--add-keymap (start end)
  "Enable the keys of an output between START and END, except on buttons."
  (let ((place start))
    (while (< place end)
      (let ((next (next-single-char-property-change place 'button nil end)))
        (unless (get-char-property place 'button)
          (put-text-property place next 'keymap edn-bridge-tools-body-map))
        (setq place next)))))

(defun edn-bridge-tools--arguments (call)
  "Return the arguments of CALL where they are a map, else nil."
  (let ((arguments (edn-bridge-tools--call-arguments call)))
    (and (consp arguments) arguments)))

(defun edn-bridge-tools--diff-of-arguments (call)
  "Return what CALL, which was made or rejected, asked for as a diff.
Of a call that was rejected there is no other, and a journal of an earlier
version has no other; where in the file the changes were is not known."
  (let* ((arguments (edn-bridge-tools--arguments call))
         (edits (plist-get arguments :edits)))
    (when (and (or (eq (edn-bridge-tools--call-state call) 'done)
                   (edn-bridge-tools--rejected-p call))
               (vectorp edits)
               (seq-every-p (lambda (edit)
                              (and (consp edit)
                                   (stringp (plist-get edit :old))
                                   (stringp (plist-get edit :new))))
                            edits))
      (concat (format "--- %s\n" (plist-get arguments :path))
              (mapconcat (lambda (edit)
                           (concat "@@\n"
                                   (edn-bridge-tools--prefix
                                    "-" (plist-get edit :old))
                                   (edn-bridge-tools--prefix
                                    "+" (plist-get edit :new))))
                         edits "")))))

(defun edn-bridge-tools--insert-rest-button (call)
  "Insert a button for what the bridge held back of the output of CALL."
  (let* ((details (edn-bridge-tools--call-details call))
         (handle (and (consp details) (plist-get details :handle)))
         (size (and handle (plist-get details :size))))
    (when handle
      (insert-text-button
       (if size
           (format "[Whole output, %s]" (file-size-human-readable size))
         "[Whole output]")
       'face 'edn-bridge-button 'follow-link t
       'action (lambda (_button) (edn-bridge-tools-view-output handle)))
      (insert "\n"))))

;;;; Folding

(defun edn-bridge-tools-toggle (&optional all)
  "Fold or unfold the tool call or the thinking at point, or the last call.
With a prefix argument ALL, fold every call and all thinking; where all is
folded, unfold them."
  (interactive "P" edn-bridge-chat-mode)
  (if all
      (edn-bridge-tools--toggle-all)
    (if (edn-bridge-messages-thinking-at-point)
        (edn-bridge-messages-toggle-thinking)
      (let ((start (edn-bridge-tools--start-at-point)))
        (unless start
          (user-error "There is no tool call"))
        (edn-bridge-tools--toggle-at start)))))

(defconst edn-bridge-tools--toggle-seconds 0.08
  "How long it may take to unfold all that is folded.")

(defun edn-bridge-tools--toggle-all ()
  "Fold all that is unfolded, or else unfold all, the last call first."
  (unless (> (+ (edn-bridge-messages-fold-all t)
                (edn-bridge-tools--toggle-each t nil))
             0)
    (edn-bridge-messages-fold-all nil)
    (edn-bridge-tools--toggle-each nil (+ (float-time)
                                          edn-bridge-tools--toggle-seconds)))
  (edn-bridge-transcript-fill-windows))

(defun edn-bridge-tools--toggle-each (open deadline)
  "Toggle all calls that are unfolded, or with OPEN nil folded, until DEADLINE.
Return how many that were."
  (let ((place (edn-bridge-transcript-end))
        (count 0))
    (while (and (> place (point-min))
                (or (null deadline) (< (float-time) deadline)))
      (let* ((start (previous-single-property-change
                     place 'edn-bridge-tool nil (point-min)))
             (call (get-text-property start 'edn-bridge-tool)))
        (when (and call (eq open (and (edn-bridge-tools--call-open call) t)))
          (save-excursion (edn-bridge-tools--toggle-at start))
          (setq count (1+ count)))
        (setq place start)))
    count))

(defun edn-bridge-tools-toggle-at-mouse (event)
  "Fold or unfold the tool call at the place of the mouse EVENT."
  (interactive "e" edn-bridge-chat-mode)
  (mouse-set-point event)
  (edn-bridge-tools-toggle))

(defun edn-bridge-tools--start-at-point ()
  "Return the start of the tool call at point, or of the last one, or nil."
  (let ((point (point)))
    (cond
     ((get-text-property point 'edn-bridge-tool)
      (if (or (= point (point-min))
              (not (eq (get-text-property point 'edn-bridge-tool)
                       (get-text-property (1- point) 'edn-bridge-tool))))
          point
        (previous-single-property-change point 'edn-bridge-tool nil
                                         (point-min))))
     (t
      (let ((end (edn-bridge-transcript-end)))
        (while (and (> end (point-min))
                    (not (get-text-property (1- end) 'edn-bridge-tool)))
          (setq end (previous-single-property-change
                     end 'edn-bridge-tool nil (point-min))))
        (and (> end (point-min))
             (previous-single-property-change end 'edn-bridge-tool nil
                                              (point-min))))))))

(defun edn-bridge-tools--toggle-at (start)
  "Fold or unfold the tool call whose line begins at START."
  (let* ((call (get-text-property start 'edn-bridge-tool))
         (live (edn-bridge-tools--call-marker call))
         (here (and (>= (point) start)
                    (< (point) (edn-bridge-tools--end start)))))
    (setf (edn-bridge-tools--call-open call)
          (not (edn-bridge-tools--call-open call)))
    (unless live
      (setf (edn-bridge-tools--call-marker call) (copy-marker start)))
    (edn-bridge-tools--redraw call)
    (unless live
      (edn-bridge-tools--settle call))
    (when here
      (goto-char start))))

;;;; Registering

(edn-bridge-chat-handle "tool/start" #'edn-bridge-tools--on-start)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-tools--on-message)
(edn-bridge-chat-handle "turn/retry" #'edn-bridge-tools--on-retry)
(edn-bridge-chat-handle "tool/executing" #'edn-bridge-tools--on-executing)
(edn-bridge-chat-handle "tool/update" #'edn-bridge-tools--on-update)
(edn-bridge-chat-handle "tool/result" #'edn-bridge-tools--on-result)
(edn-bridge-chat-handle-block :tool-call #'edn-bridge-tools--show-block)
(edn-bridge-chat-handle-block :tool-result #'edn-bridge-tools--show-message)
(add-hook 'edn-bridge-chat-rebuild-functions #'edn-bridge-tools--on-rebuild)
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-tools--on-rebuilt)

(define-key edn-bridge-chat-mode-map (kbd "C-c C-t") #'edn-bridge-tools-toggle)

(provide 'edn-bridge-tools)

;;; edn-bridge-tools.el ends here
