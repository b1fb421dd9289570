;;; edn-bridge-beside-tests.el --- Tests of what stands beside the conversation  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

;;;; Attention

(ert-deftest edn-bridge-attention-says-which-session-needs-the-user ()
  (edn-bridge-test-with-chat (conn _sent)
    (let* ((told nil)
           (edn-bridge-attention-notify-function
            (lambda (title text) (push (list title text) told)))
           (global-mode-string nil))
      (unwind-protect
          (progn
            (edn-bridge-attention-mode)
            (should (member '(:eval edn-bridge-attention--lighter)
                            global-mode-string))
            (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
            (should (equal told (list (list (buffer-name) "Sure?"))))
            (should (equal edn-bridge-attention--lighter " edn:1?"))
            (save-window-excursion
              (with-temp-buffer
                (edn-bridge-attention-next))
              (should (looking-at-p "\\[No"))
              (should (eq (window-buffer) (current-buffer))))
            (edn-bridge-test-event conn "interaction/answered"
                                   :interaction-id "i1" :status "accepted")
            (should (equal edn-bridge-attention--lighter ""))
            (edn-bridge-test-event conn "session/updated" :session-id "s1"
                                   :is-streaming t)
            (edn-bridge-test-event conn "session/updated" :session-id "s1"
                                   :is-streaming :false)
            (should (equal (cadr (car told)) "The turn is done"))
            (should (equal edn-bridge-attention--lighter " edn:1✓"))
            (save-window-excursion
              (set-window-buffer nil (current-buffer))
              ;; Who is in another program sees nothing of Emacs.
              (cl-letf* ((focus nil)
                         ((symbol-function 'frame-focus-state)
                          (lambda (&optional _frame) focus)))
                (edn-bridge-attention--on-view (selected-frame))
                (should (equal edn-bridge-attention--lighter " edn:1✓"))
                (setq focus t)
                (funcall after-focus-change-function)
                (should (equal edn-bridge-attention--lighter ""))
                (dolist (state '(t unknown nil))
                  (setq focus state
                        told nil)
                  (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
                  (should (eq (null told) (and state t)))
                  (edn-bridge-test-event
                   conn "interaction/answered"
                   :interaction-id "i1" :status "accepted"))
                (should (equal edn-bridge-attention--lighter "")))))
        (edn-bridge-attention-mode -1))
      (should-not global-mode-string)
      (should-not (advice-function-member-p
                   #'edn-bridge-attention--on-focus
                   after-focus-change-function))
      (should-error (edn-bridge-attention-next) :type 'user-error))))

(ert-deftest edn-bridge-attention-window-with-the-question-is-not-marked ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((chat (current-buffer)))
      (should-not (edn-bridge-attention-state chat))
      (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
      (should (eq (edn-bridge-attention-state chat) 'asks))
      (save-window-excursion
        (cl-letf* ((shown t)
                   ((symbol-function 'pos-visible-in-window-p)
                    (lambda (&rest _) shown)))
          (set-window-buffer nil chat)
          (goto-char (point-max))
          (should-not (edn-bridge-attention-state chat))
          (setq shown nil)
          (should (eq (edn-bridge-attention-state chat) 'asks)))))))

(ert-deftest edn-bridge-attention-tabs-are-views-of-one-function ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((chat (current-buffer))
          (edn-bridge-attention-notify-function #'ignore)
          (global-mode-string nil))
      (unwind-protect
          (cl-flet ((names ()
                      (list
                       (substring-no-properties
                        (funcall tab-bar-tab-name-format-function
                                 `(tab (name . "Work")
                                       (ws nil (hc (buffer ,(buffer-name chat)))))
                                 1))
                       (substring-no-properties
                        (funcall tab-line-tab-name-format-function chat
                                 (list chat)))
                       edn-bridge-attention--lighter)))
            (edn-bridge-attention-mode)
            (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
            (pcase-let ((`(,bar ,line ,lighter) (names)))
              (should (string-match-p "\\`\\? .*Work" bar))
              (should (string-match-p "\\`\\? .*test" line))
              (should (equal lighter " edn:1?")))
            (let ((edn-bridge-attention-views nil))
              (edn-bridge-attention--update)
              (pcase-let ((`(,bar ,line ,lighter) (names)))
                (should-not (string-match-p "\\?" bar))
                (should-not (string-match-p "\\?" line))
                (should (equal lighter "")))))
        (edn-bridge-attention-mode -1))
      (should-not (string-match-p
                   "\\?" (funcall tab-line-tab-name-format-function chat
                                  (list chat)))))))

(ert-deftest edn-bridge-chats-lists-who-asks-first ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((edn-bridge-work--list nil))
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :session-display-name "Here")
      (edn-bridge-work--note
       nil '((:psi.at-work/session-id "s7" :psi.at-work/name "Elsewhere"
              :psi.at-work/cwd "/other" :psi.at-work/phase :streaming)
             (:psi.at-work/session-id "s8" :psi.at-work/name "Asking"
              :psi.at-work/cwd "/other" :psi.at-work/phase :idle
              :psi.at-work/asks :approve-tool)))
      (save-window-excursion
        (edn-bridge-chats)
        (unwind-protect
            (progn
              (edn-bridge-test-answer
               conn sent "list_sessions"
               :sessions [(:id "s1" :name "Here" :message-count 2)
                          (:id "s2" :name "Empty" :message-count 0)
                          (:id "s9" :name "Old" :message-count 2
                           :worktree-path "/a/very/long/way/to/the/old"
                           :modified "2026-01-01T00:00:00.000Z")])
              (goto-char (point-min))
              (let ((rest (buffer-string)))
                (should (string-match-p
                         (concat "State .*\n"
                                 " waits for an approval +Asking +/other *\n"
                                 " running +Elsewhere +/other *\n"
                                 " idle +Here .*\n"
                                 " +Old +…/?[^ ]*/to/the/old +2026-01-01")
                         rest))
                ;; No line is longer than a small frame.
                (dolist (line (split-string rest "\n"))
                  (should (<= (string-width line) (max 80 (frame-width)))))
                (should-not (string-search "Empty" rest)))
              (search-forward "Here")
              (edn-bridge-chats-visit)
              (should (edn-bridge-chat-buffer-p (current-buffer))))
          (kill-buffer "*edn-bridge chats*"))))))

(ert-deftest edn-bridge-attention-shows-notifications ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((inhibit-message t))
      (edn-bridge-test-event conn "ui/notification" :id "n1" :level "info"
                             :message "By the way")
      (should-not (string-match-p "By the way" (edn-bridge-test-transcript)))
      (edn-bridge-test-event conn "ui/notification" :id "n2" :level "error"
                             :message "The hook failed" :extension-id "x")
      (should (string-match-p "The hook failed" (edn-bridge-test-transcript)))
      (edn-bridge-test-event conn "diagnostic" :code "c" :message "Repaired"))))

;;;; Jobs, widgets, statuses

(ert-deftest edn-bridge-jobs-are-listed-inspected-and-cancelled ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((chat (current-buffer)))
      (save-window-excursion
        (edn-bridge-jobs)
        (unwind-protect
            (let ((jobs (current-buffer)))
              (edn-bridge-test-answer conn sent "list_background_jobs" :jobs [])
              (should (string-search "There are no background jobs"
                                     (buffer-string)))
              (should-error (edn-bridge-jobs-inspect) :type 'user-error)
              (revert-buffer)
              (edn-bridge-test-answer
               conn sent "list_background_jobs"
               :jobs [(:id "j1" :status "running" :command "make\n all")
                      (:id "j2" :status "done" :command "ls")])
              (should (string-match-p "running +make all +j1" (buffer-string)))
              (goto-char (point-min))
              (should-error (edn-bridge-jobs-inspect) :type 'user-error)
              (forward-line)
              (edn-bridge-jobs-inspect)
              (should (equal (plist-get (car sent) :params) '(:job-id "j1")))
              (edn-bridge-test-answer
               conn sent "inspect_background_job"
               :job '(:id "j1" :status "failed" :exit-code 2
                      :command "make all" :handle "h1"
                      :output "line 1\nline 2\n"))
              (with-current-buffer "*edn-bridge job*"
                (should (string-match-p
                         "\\`make all\nstatus  failed (exit 2)\n\\(.*\n\\)*\\[Whole output\\]\nline 1\nline 2\n"
                         (buffer-string)))
                (kill-buffer))
              (set-buffer jobs)
              (edn-bridge-jobs-cancel)
              (should (equal (plist-get (car sent) :op)
                             "cancel_background_job"))
              (edn-bridge-test-answer conn sent "cancel_background_job"
                                      :accepted t)
              (should (equal (plist-get (car sent) :op)
                             "list_background_jobs"))
              ;; What changes is shown while it is looked at.
              (setcdr sent nil)
              (set-window-buffer nil jobs)
              (with-current-buffer chat
                (edn-bridge-test-event conn "job/updated" :job '(:id "j1")))
              (should (equal (plist-get (car sent) :op)
                             "list_background_jobs")))
          (kill-buffer (format "*%s jobs*"
                               (string-trim (buffer-name chat) "\\*" "\\*"))))))))

(ert-deftest edn-bridge-jobs-are-told-of-in-the-chat ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((above () (edn-bridge-transcript-footer))
              (job (id status &rest more)
                (edn-bridge-test-event
                 conn "job/updated" :session-id "s1"
                 :job (append (list :id id :status status :command "make\nall")
                              more))))
      (job "j1" "running")
      (job "j2" "running")
      (job "j1" "running")
      (should (string-match-p "Running in the background: make all\nRunning"
                              (above)))
      (job "j1" "completed" :exit-code 0)
      (job "j2" "failed" :exit-code 2)
      (should-not (string-match-p "background" (above)))
      (should (equal (edn-bridge-test-transcript)
                     "Background job completed: make all\n")))))

(ert-deftest edn-bridge-jobs-show-widgets-and-statuses-above-the-footer ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((shown () (edn-bridge-transcript-footer)))
      (edn-bridge-test-event
       conn "ui/widgets-updated"
       :widgets [(:placement "footer" :extension-id "workflow" :widget-id "w1"
                  :content-lines ["review: 2/3" (:text "stage: look")])])
      (edn-bridge-test-event conn "ui/status-updated"
                             :statuses [(:extension-id "x" :text "indexing")])
      (should (string-match-p "review: 2/3\nstage: look\nindexing" (shown)))
      (edn-bridge-test-event conn "ui/widget-specs-updated")
      (edn-bridge-test-event conn "ui/widgets-updated" :session-id "s2"
                             :widgets [])
      (should (string-match-p "review" (shown)))
      (edn-bridge-test-event conn "ui/widgets-updated" :widgets [])
      (should-not (string-match-p "review" (shown)))
      (should (string-match-p "indexing" (shown)))
      (edn-bridge-test-event conn "ui/status-updated" :statuses [])
      (should-not (string-match-p "indexing" (shown)))
      ;; Another session has its own.
      (edn-bridge-test-event conn "ui/status-updated"
                             :statuses [(:text "waiting")])
      (edn-bridge-test-event conn "session/resumed" :session-id "s2")
      (should-not (string-match-p "waiting" (shown))))))

;;;; Actions

(ert-deftest edn-bridge-actions-wait-behind-a-button-and-report ()
  (let ((data '(:request-id "r1"
                :ui/action (:ui/action-id "a" :ui/action-kind :select
                            :ui/action-name :select-session
                            :ui/prompt "Select a live session"
                            :ui/order :preserve
                            :ui/items
                            [(:ui.item/id "1" :ui.item/label "B"
                              :ui.item/value (:action/kind :switch-session
                                              :action/session-id "s2"))
                             (:ui.item/id "2" :ui.item/label "A"
                              :ui.item/value nil)]))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-actions--offer conn data)
      (should-not sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (_prompt collection &rest _)
                   (car (all-completions "" collection)))))
        (edn-bridge-test-push "Choose"))
      (should (equal (plist-get (car sent) :params)
                     '(:request-id "r1" :action-name "select-session"
                       :status "submitted"
                       :value (:action/kind :switch-session
                               :action/session-id "s2")))))
    (edn-bridge-test-with-chat (conn sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (&rest _) (signal 'quit nil))))
        (edn-bridge-actions--choose conn data))
      (should (equal (plist-get (plist-get (car sent) :params) :status)
                     "cancelled")))))

;;;; Completion

(defun edn-bridge-beside-tests-complete (draft)
  "Return what completes DRAFT at its end."
  (edn-bridge-transcript-set-draft draft)
  (pcase (edn-bridge-complete-at-point)
    (`(,start ,end ,table . ,_)
     (all-completions (buffer-substring-no-properties start end) table))))

(ert-deftest edn-bridge-complete-completes-in-the-draft ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--files
          (cons (float-time) '("src/main.rs" "src/lib.rs" "README.md"))
          edn-bridge-complete--models '((:provider "embedded" :id "tiny")
                                        (:provider "local" :id "big")
                                        (:provider "local" :id "small")))
    (should (equal (edn-bridge-beside-tests-complete "/thi") '("thinking")))
    (should (equal (edn-bridge-beside-tests-complete "/thinking m")
                   '("minimal" "medium")))
    (should (equal (edn-bridge-beside-tests-complete "/mode r") '("read-only")))
    (should (equal (edn-bridge-beside-tests-complete "/model ")
                   '("embedded" "local")))
    (should (equal (edn-bridge-beside-tests-complete "/model e") '("embedded")))
    (should (equal (edn-bridge-beside-tests-complete "/model local ")
                   '("big" "small")))
    (should-not (edn-bridge-beside-tests-complete "/model local big "))
    (should (equal (edn-bridge-beside-tests-complete "/login l") '("local")))
    (should (equal (edn-bridge-beside-tests-complete "look at @src/")
                   '("src/main.rs" "src/lib.rs")))
    (should (equal (edn-bridge-beside-tests-complete "@REA") '("README.md")))
    (should-not (edn-bridge-beside-tests-complete "mail me a@REA"))
    (should-not (edn-bridge-beside-tests-complete "plain text"))))

(ert-deftest edn-bridge-complete-explains-slash-commands ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--commands
          '((:name "thinking" :usage "/thinking [level]"
             :description "How much the model thinks")))
    (cl-flet ((told (draft)
                (edn-bridge-transcript-set-draft draft)
                (let ((told nil))
                  (edn-bridge-complete-eldoc
                   (lambda (text &rest more)
                     (setq told (list (plist-get more :thing) text))))
                  told)))
      (dolist (draft '("/thinking" "/thinking " "/thinking high"))
        (should (equal (told draft)
                       '("/thinking [level]" "How much the model thinks"))))
      (dolist (draft '("" "/think" "thinking" "see /thinking"))
        (should-not (told draft)))
      ;; Eldoc shows it by itself.
      (should (memq #'edn-bridge-complete-eldoc
                    eldoc-documentation-functions)))))

(ert-deftest edn-bridge-complete-tells-things-of-one-name-apart ()
  (cl-letf (((symbol-function 'completing-read)
             (lambda (_prompt collection &rest _)
               (should (equal (all-completions "" collection)
                              '("x" "x <2>" "a")))
               "x <2>")))
    (should (equal (edn-bridge-complete-choose
                    "P: " 'edn-bridge-option '((1 "x") (2 "x") (3 "a")) #'cadr)
                   '(2 "x")))))

(defconst edn-bridge-beside-tests-pickers
  '((edn-bridge-models-choose
     edn-bridge-model ("p/m3" "p/m1" "p/m2")
     (:models [(:provider "p" :id "m3") (:provider "p" :id "m1")
               (:provider "p" :id "m2")]))
    (edn-bridge-agents-new
     edn-bridge-agent ("c" "a" "b")
     (:agents [(:name "c" :state "idle") (:name "b" :state "refused")
               (:name "a" :state "ready")]))
    (edn-bridge-models-think edn-bridge-thinking-level
                             edn-bridge-constants-thinking-levels)
    (edn-bridge-models-set-mode edn-bridge-mode edn-bridge-constants-modes)
    (edn-bridge-sessions-switch
     edn-bridge-session ("new" "old" "middle")
     (:sessions [(:id "s3" :name "new") (:id "s1" :name "old")
                 (:id "s2" :name "middle")]))
    (edn-bridge-sessions-fork
     edn-bridge-message ("third" "second" "first")
     (:messages [(:id "e1" :role "user" :content "first")
                 (:id "e2" :role "assistant" :content "second")
                 (:id "e3" :role "user" :content "third")]))
    (edn-bridge-input-search edn-bridge-input ("zz" "aa" "mm"))
    (edn-bridge-beside-tests-pick-action
     edn-bridge-session ("b" "c" "a"))
    (edn-bridge-beside-tests-pick-option edn-bridge-option ("b" "c" "a")))
  "Commands that have the user choose: category, what is offered, in order.
The last is what the bridge answers.")

(defun edn-bridge-beside-tests-pick-action ()
  "Offer a choice that the bridge leaves to Emacs."
  (interactive)
  (edn-bridge-actions--choose
   edn-bridge-chat--conn
   '(:request-id "r1"
     :ui/action (:ui/action-name :select-resume-session
                 :ui/order :preserve
                 :ui/items [(:ui.item/label "b") (:ui.item/label "c")
                            (:ui.item/label "a")]))))

(defun edn-bridge-beside-tests-pick-option ()
  "Answer a question by a choice."
  (interactive)
  (edn-bridge-test-ask
   edn-bridge-chat--conn "select"
   '(:prompt "Which?" :multi t
     :options [(:label "b") (:label "c") (:label "a")]))
  (edn-bridge-test-push "Choose"))

(ert-deftest edn-bridge-complete-pickers-keep-the-order ()
  (pcase-dolist (`(,command ,category ,names ,answer)
                 edn-bridge-beside-tests-pickers)
    (edn-bridge-test-with-chat (conn _sent)
      (mapc #'edn-bridge-input--remember '("mm" "aa" "zz"))
      (let* ((offered nil)
             (look (lambda (_prompt collection &rest _)
                     (setq offered
                           (list (completion-metadata-get
                                  (completion-metadata "" collection nil)
                                  'category)
                                 (funcall
                                  (completion-metadata-get
                                   (completion-metadata "" collection nil)
                                   'display-sort-function)
                                  (all-completions "" collection))))
                     (signal 'quit nil))))
        (cl-letf (((symbol-function 'completing-read) look)
                  ((symbol-function 'completing-read-multiple) look)
                  ((symbol-function 'edn-bridge-rpc-call)
                   (lambda (&rest _) answer)))
          (goto-char (point-max))
          (condition-case nil
              (call-interactively command)
            (quit nil)))
        (ert-info ((symbol-name command))
          (should (equal offered
                         (list category (if (symbolp names)
                                            (append (symbol-value names) nil)
                                          names)))))))))

(ert-deftest edn-bridge-complete-finds-files-by-any-part ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--files
          (cons (float-time) '("src/main.rs" "src/lib.rs" "README.md")))
    (edn-bridge-transcript-set-draft "see @main")
    (pcase-let ((`(,start ,end ,table . ,_) (edn-bridge-complete-at-point)))
      (should (equal (car (completion-try-completion
                           (buffer-substring start end) table nil
                           (- end start)
                           (completion-metadata "main" table nil)))
                     "src/main.rs")))))

(ert-deftest edn-bridge-complete-chooses-several ()
  (let ((items '((1 "Now") (2 "Then, perhaps") (3 "Never"))))
    (cl-letf (((symbol-function 'read-from-minibuffer)
               (lambda (&rest _) "Never,Then; perhaps")))
      (should (equal (edn-bridge-complete-choose-several
                      "P: " 'edn-bridge-option items #'cadr)
                     '((3 "Never") (2 "Then, perhaps")))))))

;;;; Log

(ert-deftest edn-bridge-log-masks-secrets-before-it-keeps-them ()
  (pcase-dolist
      (`(,text ,masked)
       '(("{:secret \"s3cret\"}" "{:secret \"•••\"}")
         ("{:value {:secret \"a\\\"b\"} :x 1}" "{:value {:secret \"•••\"} :x 1}")
         ("{:api-key \"k\" :access-token \"t\"}"
          "{:api-key \"•••\" :access-token \"•••\"}")
         ("{:input \"code\"}" "{:input \"•••\"}")
         ("{:usage {:input 12}}" "{:usage {:input 12}}")
         ("{:secret \"cut of" "{:secret \"•••\"")
         ("{:text \"plain\"}" "{:text \"plain\"}")))
    (should (equal (edn-bridge-log-mask text) masked)))
  (edn-bridge-test-with-connection (conn _sent _events)
    (edn-bridge-log--keep conn 'out "{:secret \"s3cret\"}")
    (edn-bridge-log--keep conn 'in (make-string 100000 ?x))
    (let ((kept (format "%S" (ring-elements
                              (gethash conn edn-bridge-log--rings)))))
      (should-not (string-match-p "s3cret" kept))
      (should (< (length kept) 5000)))))

;;;; Asking from other buffers

(ert-deftest edn-bridge-ask-brings-the-region-to-the-chat ()
  (edn-bridge-test-with-chat (_conn sent)
    (let* ((chat (current-buffer))
           (edn-bridge-ask--chat-function (lambda () chat)))
      (with-temp-buffer
        (rename-buffer "notes" t)
        (insert "one\ntwo ```\nthree\n")
        (save-window-excursion
          (edn-bridge-ask-region 5 13 "What is this?")
          (edn-bridge-add-region 1 5)))
      (should (string-match-p
               "\\`What is this\\?\n\nnotes.*:2\n````\ntwo ```\n````\\'"
               (plist-get (plist-get (car sent) :params) :message)))
      (should (string-match-p "\\`notes.*:1\n```\none\n```\n\\'"
                              (edn-bridge-transcript-draft))))))

(defun edn-bridge-beside-tests-footer-p (regexp)
  "Return non-nil if what stands above the draft has what REGEXP matches."
  (string-match-p regexp (edn-bridge-transcript-footer)))

(ert-deftest edn-bridge-ask-takes-what-is-dropped ()
  (edn-bridge-test-with-chat (conn sent)
    (let* ((edn-bridge-ask--chat-function #'ignore)
           (folder (file-name-as-directory (make-temp-file "edn-bridge" t)))
           (inhibit-message t))
      (setq default-directory folder)
      (unwind-protect
          (progn
            (write-region "xyz" nil (concat folder "dot.png") nil 'quiet)
            (write-region "text" nil (concat folder "a.txt") nil 'quiet)
            (should (assoc "^file:" dnd-protocol-alist))
            (save-window-excursion
              (dolist (name '("dot.png" "a.txt"))
                (edn-bridge-ask--on-drop (concat "file://" folder name) 'copy)))
            (should (equal (edn-bridge-transcript-draft) "@a.txt "))
            (should (equal edn-bridge-input-images
                           '((:mime-type "image/png" :data "eHl6"))))
            (should-error (edn-bridge-add-image (concat folder "a.txt"))
                          :type 'user-error)
            ;; What is refused is not lost.
            (edn-bridge-transcript-set-draft "Look")
            (edn-bridge-input-send)
            (should-not edn-bridge-input-images)
            (edn-bridge-rpc--dispatch-frame
             conn (list :kind :error :id (plist-get (car sent) :id)
                         :op "prompt" :error-code "request/invalid-params"
                         :error-message "No"))
            (should (equal edn-bridge-input-images
                           '((:mime-type "image/png" :data "eHl6"))))
            (should (edn-bridge-beside-tests-footer-p
                     "^1 image goes with the next message"))
            (edn-bridge-add-image (concat folder "dot.png"))
            (should (edn-bridge-beside-tests-footer-p "^2 images go"))
            (edn-bridge-add-image nil)
            (should-not edn-bridge-input-images)
            (should-not (edn-bridge-beside-tests-footer-p "image")))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-ask-takes-what-is-yanked ()
  ;; Emacs 29 has this; here it is seen what it would be told.
  (let ((handlers nil)
        (inhibit-message t))
    (cl-letf (((symbol-function 'yank-media-handler)
               (lambda (types handler) (push (list types handler) handlers))))
      (edn-bridge-test-with-chat (_conn _sent)
        (pcase-let ((`((,types ,handler)) handlers))
          (should (string-match-p types "image/png"))
          (funcall handler 'image/png "\211PNG"))
        (should (equal edn-bridge-input-images
                       '((:mime-type "image/png" :data "iVBORw=="))))))))

(ert-deftest edn-bridge-ask-sends-images-once ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((inhibit-message t))
      (edn-bridge-ask-attach "image/png" "\211PNG"))
    (edn-bridge-transcript-set-draft "Look")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :images)
                   [(:mime-type "image/png" :data "iVBORw==")]))
    (edn-bridge-transcript-set-draft "And")
    (edn-bridge-input-send)
    (should-not (plist-get (plist-get (car sent) :params) :images))))

;;;; Sessions as a tree

(ert-deftest edn-bridge-tree-puts-forks-under-their-source ()
  (with-temp-buffer
    (edn-bridge-tree-mode)
    (edn-bridge-tree--show
     '((:id "c" :display-name "C" :parent-session-id "a")
       (:id "a" :display-name "A")
       (:id "b" :display-name "B" :parent-session-id "gone" :is-streaming t)
       (:id "d" :display-name "D" :parent-session-id "c"))
     "b")
    (should (equal (split-string (buffer-string) "\n" t "[ ]+\\'")
                   '("○ A" "  ○ C" "    ○ D" "● B  running")))))

;;;; Footer

(ert-deftest edn-bridge-footer-shows-lines-and-statuses ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "footer/updated" :session-id "s1"
                           :path-line "~/x (main)" :stats-line "↑1 ↓2")
    (edn-bridge-test-event conn "ui/widgets-updated"
                           :widgets [(:widget-id "w" :content-lines ["stage 2/3"])
                                     (:widget-id "session-tree"
                                      :content-lines ["no"])])
    (should (string-match-p
             "\\`\nstage 2/3\n~/x (main)\n↑1 ↓2\n─+\n\\'"
             (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-footer-changes-leave-everything-where-it-is ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc")
    (goto-char (point-max))
    (insert "one")
    (undo-boundary)
    (insert " two")
    (undo-boundary)
    (dolist (lines '(("a" "b") ("a" "c" "b") ("x") nil ("aa") ("a")))
      (let ((point (set-marker (make-marker)
                               (edn-bridge-transcript-draft-start))))
        (save-excursion
          (goto-char point)
          (edn-bridge-transcript-set-footer lines)
          (should (= (point) point (edn-bridge-transcript-draft-start))))
        (should (equal (edn-bridge-transcript-footer)
                       (concat "\n\n" (mapconcat (lambda (line)
                                                 (concat line "\n"))
                                               lines "")
                               (make-string 30 ?─) "\n")))
        (should (equal (edn-bridge-test-transcript) "Assistant\nabc"))
        (should (equal (edn-bridge-transcript-draft) "one two"))))
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "def")
    (should (equal (edn-bridge-test-transcript) "Assistant\nabcdef"))
    (goto-char (edn-bridge-transcript-end))
    (should-error (insert "x") :type 'text-read-only)
    (goto-char (1- (edn-bridge-transcript-draft-start)))
    (should-error (insert "x") :type 'text-read-only)
    (should-error (delete-char 1) :type 'text-read-only)
    ;; A copy has none of it.
    (should (equal (substring-no-properties
                    (filter-buffer-substring (point-min) (point-max)))
                   "Assistant\nabcdef\none two"))
    (goto-char (point-max))
    (let ((last-command nil)
          (inhibit-message t))
      (undo)
      (undo-boundary)
      (should (equal (edn-bridge-transcript-draft) "one")))))

(provide 'edn-bridge-beside-tests)

;;; edn-bridge-beside-tests.el ends here
